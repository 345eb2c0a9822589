#!/usr/bin/env python3
"""Makes mnist_cnn.json: what PyTorch computes for the mnist-cnn network, for tests/test_golden.c to compare with.

Run it in a virtual environment with torch and numpy (bench/peers/README.md says how):

    python tests/golden/make_mnist_cnn.py            # writes tests/golden/mnist_cnn.json

The reference numbers are PyTorch's in float64. The same run in float32, and in bfloat16 and float16 under autocast, is made as
well: how far those are from float64 is recorded under "distance", and is what the tolerances of the test rest on.

The network is that of the table 3x3 convolutions of 32, 128 and 256 filters (valid, ReLU), each followed by 2x2 maximum
pooling; then dense layers of 1000, 100 (ReLU) and 10; softmax cross-entropy. Dropout is left out: its draws are each
system's own.

Weights, images and labels are not stored: both sides draw them from Philox4x32-10 (src/base/philox.h) with this formula.
Word i of stream s is word i % 4 of the block with counter (i / 4, s, 0, 0) under KEY.

    parameter p, element i (Keras's order):  u = (word i of stream p >> 8) / 2^24, value = float32((2 u - 1) * limit_p)
                                             with limit_p = sqrt(6 / (fan_in + fan_out)) for kernels, 0.05 for biases
    pixel i of the batch (NHWC):             k = word i of stream 100 >> 24, value = float32(k) / float32(255)
    label i:                                 word i of stream 101 % 10

Plain noise makes all samples look alike to the network. So that they differ, the pixels of sample n outside rows
[n % 8, n % 8 + 16 + n % 5) are shifted right by three bits (k >> 3): small, but not constant, for equal neighbours would
make the maximum of a pooling window ambiguous.
"""
import argparse
import json
import math
import pathlib
import re

import numpy as np
import torch
import torch.nn.functional as F

KEY = 0x4C6F636B73746570
BATCH, STEPS, SAMPLED = 32, 5, 64
STREAM_IMAGES, STREAM_LABELS, STREAM_INDICES = 100, 101, 200

# name, Keras's shape, fan_in + fan_out (kernels)
PARAMETERS = [
    ("conv2d/kernel", (3, 3, 1, 32), 9 * 1 + 9 * 32),
    ("conv2d/bias", (32,), None),
    ("conv2d_1/kernel", (3, 3, 32, 128), 9 * 32 + 9 * 128),
    ("conv2d_1/bias", (128,), None),
    ("conv2d_2/kernel", (3, 3, 128, 256), 9 * 128 + 9 * 256),
    ("conv2d_2/bias", (256,), None),
    ("dense/kernel", (256, 1000), 256 + 1000),
    ("dense/bias", (1000,), None),
    ("dense_1/kernel", (1000, 100), 1000 + 100),
    ("dense_1/bias", (100,), None),
    ("dense_2/kernel", (100, 10), 100 + 10),
    ("dense_2/bias", (10,), None),
]

ADAM = {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}
SGD = {"lr": 0.01, "momentum": 0.9}


def philox(stream, count, variant=0):
    """The first `count` words of a stream; make_resnet.py has several variants of them."""
    mask = np.uint64(0xFFFFFFFF)
    c0 = np.arange((count + 3) // 4, dtype=np.uint64)
    c1 = np.full_like(c0, stream)
    c2 = np.full_like(c0, variant)
    c3 = np.zeros_like(c0)
    k0, k1 = KEY & 0xFFFFFFFF, KEY >> 32
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & mask,
                          (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & mask)
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).reshape(-1)[:count].astype(np.uint32)


def parameter(index):
    """A parameter's initial value: float32, in Keras's shape."""
    _, shape, fans = PARAMETERS[index]
    limit = math.sqrt(6.0 / fans) if fans else 0.05
    u = (philox(index, math.prod(shape)) >> np.uint32(8)).astype(np.float64) * 2.0**-24
    return ((2.0 * u - 1.0) * limit).astype(np.float32).reshape(shape)


def batch():
    """The pixels k (N, H, W, C) as integers, and the labels (N)."""
    k = (philox(STREAM_IMAGES, BATCH * 28 * 28) >> np.uint32(24)).reshape(BATCH, 28, 28, 1)
    for n in range(BATCH):
        first, count = n % 8, 16 + n % 5
        outside = np.ones(28, dtype=bool)
        outside[first:first + count] = False
        k[n, outside] >>= np.uint32(3)
    return k, (philox(STREAM_LABELS, BATCH) % np.uint32(10)).astype(np.int64)


def to_torch(value):
    """Keras's shape to PyTorch's: HWIO to OIHW, (in, out) to (out, in)."""
    return value.permute(3, 2, 0, 1) if value.dim() == 4 else value.t() if value.dim() == 2 else value


class Run:
    """The network in one precision; its parameters are leaves in Keras's shapes, so gradients are in Keras's order."""

    def __init__(self, dtype, autocast=None):
        self.autocast = autocast
        k, labels = batch()
        images = k.astype(np.float32) / np.float32(255)
        self.x = torch.from_numpy(images).to(dtype).permute(0, 3, 1, 2)
        self.labels = torch.from_numpy(labels)
        self.params = [torch.from_numpy(parameter(i)).to(dtype).requires_grad_() for i in range(len(PARAMETERS))]

    def logits(self):
        p = [to_torch(v) for v in self.params]
        with torch.autocast("cpu", dtype=self.autocast or torch.bfloat16, enabled=self.autocast is not None):
            x = self.x
            for i in (0, 2, 4):
                x = F.max_pool2d(F.relu(F.conv2d(x, p[i], p[i + 1])), 2)
            x = x.permute(0, 2, 3, 1).flatten(1)
            x = F.relu(F.linear(x, p[6], p[7]))
            x = F.relu(F.linear(x, p[8], p[9]))
            x = F.linear(x, p[10], p[11])
        return x if self.autocast is None else x.float()

    def forward(self):
        logits = self.logits()
        return logits, F.cross_entropy(logits, self.labels, reduction="sum")

    def step(self):
        """One batch: logits, the sum of the losses, and its gradients."""
        logits, loss = self.forward()
        return logits.detach(), loss.item(), torch.autograd.grad(loss, self.params)

    def train(self, update):
        """STEPS updates on the same batch: the mean loss before each of them, and after the last."""
        state = [[torch.zeros_like(p), torch.zeros_like(p)] for p in self.params]
        losses = []
        for t in range(1, STEPS + 1):
            _, loss, gradients = self.step()
            losses.append(loss / BATCH)
            with torch.no_grad():
                for p, g, s in zip(self.params, gradients, state):
                    update(p, g / BATCH, s, t)
        losses.append(self.forward()[1].item() / BATCH)
        return losses


def adam(w, g, state, t):
    """Keras's formula: the bias corrections go into the rate, so epsilon is added to the uncorrected root."""
    m, v = state
    m += (g - m) * (1 - ADAM["beta1"])
    v += (g * g - v) * (1 - ADAM["beta2"])
    alpha = ADAM["lr"] * math.sqrt(1 - ADAM["beta2"]**t) / (1 - ADAM["beta1"]**t)
    w -= alpha * m / (v.sqrt() + ADAM["epsilon"])


def sgd(w, g, state, t):
    """Keras's formula: the rate is part of the velocity."""
    state[0].mul_(SGD["momentum"]).sub_(SGD["lr"] * g)
    w += state[0]


def measure(dtype, autocast=None):
    logits, loss, gradients = Run(dtype, autocast).step()
    return {
        "logits": logits.double(),
        "loss": loss,
        "gradients": [g.double().flatten() for g in gradients],
        "adam": Run(dtype, autocast).train(adam),
        "sgd": Run(dtype, autocast).train(sgd),
    }


def distance(a, b):
    """How far run `a` is from the reference `b`: norm-wise for tensors, the largest relative one for losses."""
    norm = lambda x, y: ((x - y).norm() / y.norm()).item()
    return {
        "logits": norm(a["logits"], b["logits"]),
        "gradients": {PARAMETERS[i][0]: norm(a["gradients"][i], b["gradients"][i]) for i in range(len(PARAMETERS))},
        "adam_losses": max(abs(x - y) / y for x, y in zip(a["adam"], b["adam"])),
        "sgd_losses": max(abs(x - y) / y for x, y in zip(a["sgd"], b["sgd"])),
    }


def shorten(value):
    """Floats to ten significant digits, all through: more than any float32 can be checked against."""
    if isinstance(value, dict):
        return {k: shorten(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shorten(v) for v in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def main():
    default = pathlib.Path(__file__).with_name("mnist_cnn.json")
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--out", default=default, help="the file to write (default: beside this script)")
    out = arguments.parse_args().out
    torch.manual_seed(0)

    reference = measure(torch.float64)
    k, labels = batch()
    parameters = []
    for i, (name, shape, _) in enumerate(PARAMETERS):
        gradient = reference["gradients"][i]
        count = gradient.numel()
        # Drawn, for in equal steps they could all fall on one unit, and that one be dead.
        indices = [int(n) for n in philox(STREAM_INDICES + i, SAMPLED) % np.uint32(count)]
        parameters.append({
            "name": name,
            "shape": list(shape),
            "initial_sum": float(parameter(i).astype(np.float64).sum()),
            "gradient_norm": gradient.norm().item(),
            "gradient_sum": gradient.sum().item(),
            "indices": indices,
            "gradient": [gradient[n].item() for n in indices],
        })
    golden = {
        "made_by": f"tests/golden/make_mnist_cnn.py with torch {torch.__version__}, float64",
        "model": "mnist-cnn without dropout",
        "batch": BATCH,
        "pixel_sum": int(k.sum()),
        "labels": labels.tolist(),
        "logits": reference["logits"].flatten().tolist(),
        "loss_sum": reference["loss"],
        "loss_mean": reference["loss"] / BATCH,
        "correct": int((reference["logits"].argmax(1).numpy() == labels).sum()),
        "parameters": parameters,
        "adam": {**ADAM, "losses": reference["adam"]},
        "sgd": {**SGD, "losses": reference["sgd"]},
        "distance": {
            "float32": distance(measure(torch.float32), reference),
            "bfloat16": distance(measure(torch.float32, autocast=torch.bfloat16), reference),
            "float16": distance(measure(torch.float32, autocast=torch.float16), reference),
        },
    }
    text = json.dumps(shorten(golden), indent=1)
    # One line for each list of numbers.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
    pathlib.Path(out).write_text(text + "\n")
    print(f"wrote {out}: loss {golden['loss_mean']:.6f}, {golden['correct']} of {BATCH} correct")


if __name__ == "__main__":
    main()
