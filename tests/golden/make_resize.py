#!/usr/bin/env python3
"""Makes resize.json: what PyTorch and TensorFlow make of resized images, for tests/test_prepare.c to compare with.

Run it in a virtual environment with numpy, torch and tensorflow (the -cpu packages do):

    python tests/golden/make_resize.py            # writes tests/golden/resize.json

The values are those of torch.nn.functional.interpolate(mode="bilinear", align_corners=False, antialias=False) in float64, at
some places; the sums are over all values. tf.image.resize(method="bilinear", antialias=False) follows the same rule in
float32; of its result there is the CRC-32 of all bytes, because the bits of ours are the same.

The images are not stored: byte i of one (H, W, C) is (i * 2654435761 mod 2^32) >> 13 & 255, on both sides.
"""
import argparse
import json
import pathlib
import re
import zlib

import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F

# height, width, channels, and the height and width wanted
CASES = [
    (32, 32, 3, 128, 128),
    (28, 28, 1, 128, 128),
    (32, 32, 3, 32, 32),
    (32, 32, 3, 33, 31),
    (28, 28, 1, 100, 100),
    (50, 37, 3, 224, 224),
    (64, 64, 3, 20, 17),
    (96, 96, 3, 32, 32),
    (32, 32, 3, 1, 1),
    (1, 1, 3, 5, 7),
    (2, 300, 4, 300, 2),
    (5, 4, 2, 1, 4096),
]
SAMPLED = 32


def image(height, width, channels):
    i = np.arange(height * width * channels, dtype=np.uint64)
    return (i * np.uint64(2654435761) % np.uint64(2**32) >> np.uint64(13) & np.uint64(255)).astype(np.uint8).reshape(
        height, width, channels)


def case(height, width, channels, to_height, to_width):
    pixels = image(height, width, channels)
    x = torch.from_numpy(pixels).double().permute(2, 0, 1)[None]
    y = F.interpolate(x, size=(to_height, to_width), mode="bilinear", align_corners=False, antialias=False)
    values = y[0].permute(1, 2, 0).flatten()
    indices = [int(k * (values.numel() - 1) // (SAMPLED - 1)) for k in range(SAMPLED)]
    theirs = tf.image.resize(pixels[None], (to_height, to_width), method="bilinear", antialias=False).numpy()
    assert np.abs(theirs.reshape(-1) - values.numpy()).max() < 0.01
    return {
        "from": [height, width, channels],
        "to": [to_height, to_width],
        "indices": indices,
        "values": [float(f"{values[n].item():.10g}") for n in indices],
        "sum": values.sum().item(),
        "tensorflow_crc32": zlib.crc32(theirs.astype("<f4").tobytes()),
    }


def main():
    default = pathlib.Path(__file__).with_name("resize.json")
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--out", default=default, help="the file to write (default: beside this script)")
    out = arguments.parse_args().out
    golden = {
        "made_by": f"tests/golden/make_resize.py with torch {torch.__version__} and tensorflow {tf.__version__}",
        "cases": [case(*c) for c in CASES],
    }
    text = json.dumps(golden, indent=1)
    # One line for each list of numbers.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
    pathlib.Path(out).write_text(text + "\n")
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
