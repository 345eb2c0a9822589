#!/usr/bin/env python3
"""Makes fp16.json: how PyTorch rounds floats to half precision, for tests/test_fp16.c to compare with.

Run it in a virtual environment with torch and numpy (bench/peers/README.md says how):

    python tests/golden/make_fp16.py            # writes tests/golden/fp16.json

Numbers are not stored, but what a hash makes of all results, each as 16 bits: h = (h ^ result) * 1099511628211 modulo 2^64, from
14695981039346656037 on. A result that is no number counts as 0x7E00. The floats are given by their bits:

    words        the 65536 words of stream 400 (make_mnist_cnn.py says how both sides draw them)
    boundaries   for each half h from 0 to the largest finite one: half way to the next (after the largest 65536 would come), the float before
                 that and the float after it, and the same with the sign set
    halves       the float that each of the 65536 halves is, whose hash is of the bits of the floats, NaNs as 0x7FC00000
"""
import json
import pathlib

import numpy as np
import torch

from make_mnist_cnn import philox


def digest(values):
    h = 14695981039346656037
    for v in values.tolist():
        h = ((h ^ v) * 1099511628211) % 2**64
    return f"{h:016x}"


def narrow(bits):
    floats = torch.from_numpy(bits.astype(np.uint32).view(np.float32).copy())
    halves = floats.to(torch.float16)
    out = halves.view(torch.int16).numpy().view(np.uint16).copy()
    out[torch.isnan(halves).numpy()] = 0x7E00
    return out


def widen(halves):
    floats = torch.from_numpy(halves.astype(np.uint16).view(np.int16).copy()).view(torch.float16).to(torch.float32)
    out = floats.numpy().view(np.uint32).copy()
    out[torch.isnan(floats).numpy()] = 0x7FC00000
    return out


def boundaries():
    h = np.arange(0x7C00, dtype=np.uint32)
    low = widen(h).view(np.float32).astype(np.float64)
    high = np.append(low[1:], 65536.0)
    middle = ((low + high) / 2).astype(np.float32).view(np.uint32)
    three = np.stack([middle, middle - 1, middle + 1], axis=1).reshape(-1)
    return np.stack([three, three | np.uint32(0x80000000)], axis=1).reshape(-1)


def main():
    golden = {
        "torch": torch.__version__,
        "words": digest(narrow(philox(400, 65536))),
        "boundaries": digest(narrow(boundaries())),
        "halves": digest(widen(np.arange(0x10000))),
    }
    path = pathlib.Path(__file__).with_name("fp16.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print("wrote", path)


if __name__ == "__main__":
    main()
