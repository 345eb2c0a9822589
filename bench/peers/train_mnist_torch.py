#!/usr/bin/env python3
"""Five epochs of MNIST with PyTorch in one process, as a user who knows it would: for comparing total time and accuracy.

    python bench/peers/train_mnist_torch.py DIR      # DIR holds the four IDX files, plain or gzipped

Beside it: lockstep train mnist-cnn --data mnist:DIR --epochs 5 --batch-size 128
Prints one JSON object: seconds of each epoch, total seconds from the start of Python, test loss and accuracy.
"""
import time

BEGIN = time.perf_counter()

import argparse
import gzip
import json
import os
import pathlib
import struct
import sys

from mnist_cnn_torch import MnistCnn  # sets up OpenMP before PyTorch is loaded
from torch_peer import FORMATS, keep_memory

import numpy as np
import torch
import torch.nn.functional as F


def read_idx(folder, name):
    """An IDX file of bytes as an array, gzipped or not."""
    for path, opener in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if path.exists():
            with opener(path, "rb") as file:
                data = file.read()
            dimensions = data[3]
            shape = struct.unpack(f">{dimensions}I", data[4:4 + 4 * dimensions])
            return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    sys.exit(f"there is neither {name} nor {name}.gz in {folder}")


def split(folder, name, layout, dtype):
    images = torch.from_numpy(read_idx(folder, f"{name}-images-idx3-ubyte").copy()).unsqueeze(1)
    labels = torch.from_numpy(read_idx(folder, f"{name}-labels-idx1-ubyte").copy()).long()
    return (images.float() / 255).to(dtype).to(memory_format=layout), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data", type=pathlib.Path, help="the folder with the IDX files")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--memory-format", choices=list(FORMATS), default="channels_last")
    args = parser.parse_args()

    keep_memory()
    torch.manual_seed(42)
    torch.set_num_threads(args.threads)
    layout, bf16 = FORMATS[args.memory_format], args.precision == "bf16"
    dtype = torch.bfloat16 if bf16 else torch.float32
    train_x, train_y = split(args.data, "train", layout, dtype)
    test_x, test_y = split(args.data, "t10k", layout, dtype)
    model = MnistCnn().to(memory_format=layout)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7, fused=True)

    epoch_seconds = []
    for epoch in range(args.epochs):
        begin = time.perf_counter()
        model.train()
        for index in torch.randperm(len(train_x)).split(args.batch):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                logits = model(train_x[index])
            F.cross_entropy(logits.float(), train_y[index]).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        epoch_seconds.append(time.perf_counter() - begin)
        print(f"epoch {epoch + 1}/{args.epochs}: {epoch_seconds[-1]:.2f} s", file=sys.stderr, flush=True)

    model.eval()
    loss = correct = 0
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        for x, y in zip(test_x.split(1000), test_y.split(1000)):
            logits = model(x).float()
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            correct += (logits.argmax(1) == y).sum().item()
    print(json.dumps({
        "epoch_seconds": [round(s, 3) for s in epoch_seconds],
        "images_per_second": round(len(train_x) / sorted(epoch_seconds)[len(epoch_seconds) // 2], 1),
        "total_seconds": round(time.perf_counter() - BEGIN, 3),
        "test_loss": round(loss / len(test_x), 5),
        "test_accuracy": correct / len(test_x),
        "batch": args.batch, "precision": args.precision, "threads": args.threads,
        "memory_format": args.memory_format, "torch": torch.__version__,
    }))


if __name__ == "__main__":
    main()
