#!/usr/bin/env python3
"""Prints the file in tests/test_weights.c that the Python package safetensors wrote (this was 0.8), as bytes for C.

Run it in a virtual environment with safetensors, numpy and ml_dtypes:

    python tests/golden/make_safetensors.py
"""
import ml_dtypes
import numpy as np
from safetensors.numpy import save

TENSORS = {
    "dense/kernel": np.arange(6, dtype=np.float32).reshape(3, 2) / 2 - 1,
    "dense/bias": np.array([1.5, -3], dtype=ml_dtypes.bfloat16),
    "norm/gamma": np.array([0.333251953125, -0.0, 6.103515625e-05, 5.9604644775390625e-08], dtype=np.float16),
    "steps": np.array(7, dtype=np.int64),
    "nothing": np.zeros((0, 4), dtype=np.float32),
}


def main():
    data = save(TENSORS, metadata={"model": "net"})
    for i in range(0, len(data), 16):
        print("    " + " ".join(f"0x{b:02x}," for b in data[i : i + 16]))


main()
