#!/usr/bin/env python3
"""ONNX Runtime computes the scores of every built-in network that Lockstep exports, within 1e-5 of the largest.

    cmake --build build/release --target onnx_scores
    python3 -m venv build/interop && build/interop/bin/pip install onnx onnxruntime numpy
    build/interop/bin/python tests/interop/onnx_runtime.py build/release/tests/onnx_scores [NETWORK...]

By hand: needs packages, so no test runs it. Last run, on 2026-11-26, with onnx 1.23.2, onnxruntime 1.32.0: all 50 networks, at most
1.5e-6 of the largest score. Models of torchvision (ResNet-18, MobileNetV2, GoogLeNet, DenseNet-121, EfficientNet-B0, RegNetY-400MF,
MnasNet, SqueezeNet) and small LSTMs, GRUs and generators, exported by both exporters of PyTorch 2.15, were read within 1e-5 as well.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

program, names = sys.argv[1], sys.argv[2:]
ort.set_default_logger_severity(3)
worst = 0.0
if not names:
    names = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
for name in names:
    with tempfile.TemporaryDirectory() as here:
        subprocess.run([program, name, here], check=True)
        path = os.path.join(here, "model.onnx")
        onnx.checker.check_model(onnx.load(path), full_check=True)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        feed = {}
        for port in session.get_inputs():
            whole, shape = "int" in port.type, [2] + list(port.shape[1:])
            values = np.fromfile(os.path.join(here, port.name), dtype=np.int32 if whole else np.float32)
            if len(shape) >= 4:  # ours are (N, H, W, C)
                values = np.moveaxis(values.reshape([2] + shape[2:] + shape[1:2]), -1, 1)
            feed[port.name] = values.reshape(shape).astype(np.int64 if whole else np.float32)
        scores = session.run(None, feed)[0]
        if scores.ndim >= 4:
            scores = np.moveaxis(scores, 1, -1)
        ours = np.fromfile(os.path.join(here, "scores"), dtype=np.float32).reshape(scores.shape)
        apart = float(np.abs(scores - ours).max() / np.abs(ours).max())
        worst = max(worst, apart)
        print(f"{name}: {apart:.1e} of {np.abs(ours).max():.3g}", flush=True)
        assert apart < 1e-5, name
print(f"all within {worst:.1e}")
