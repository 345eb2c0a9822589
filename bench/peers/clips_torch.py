#!/usr/bin/env python3
"""Trains frame-prediction in PyTorch on Lockstep's moving digits: what error it reaches, beside `lockstep train frame-prediction`.

    cmake --build --preset release --target clips-raw
    build/release/tools/clips-raw train 10000 > train.raw
    build/release/tools/clips-raw test 1000 > test.raw
    python bench/peers/clips_torch.py train.raw test.raw --epochs 3

The network is that of src/models/frame_prediction.c, its weights drawn as Keras and Lockstep draw them (glorot_uniform), with Adam, the batch cut into
micro-batches, over each of which batch normalization takes its statistics. Prints the errors of the test clips after each epoch.
"""
import argparse
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FRAMES, SIDE = 8, 32


def glorot(layer):
    """Keras's initial weights; of a transposed convolution the fans are exchanged, which the sum does not see."""
    out, into = layer.weight.shape[:2]
    limit = math.sqrt(6 / (math.prod(layer.weight.shape[2:]) * (out + into)))
    nn.init.uniform_(layer.weight, -limit, limit)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Same(nn.Module):
    """A 3x3x3 convolution with strides over height and width whose padding is TensorFlow's: the odd element behind."""

    def __init__(self, into, out, stride):
        super().__init__()
        self.conv = glorot(nn.Conv3d(into, out, 3, stride=(1, stride, stride), bias=False))
        front = 1 if stride == 1 else 0
        self.pad = (front, 1, front, 1, 1, 1)

    def forward(self, x):
        return self.conv(F.pad(x, self.pad))


def network():
    def norm(channels):
        return [nn.BatchNorm3d(channels, eps=1e-3, momentum=0.1), nn.ReLU()]

    def up(into, out):
        return [glorot(nn.ConvTranspose3d(into, out, (3, 4, 4), stride=(1, 2, 2), padding=1, bias=False)), *norm(out)]

    parts = []
    for into, out, stride in ((1, 16, 1), (16, 32, 2), (32, 64, 2), (64, 64, 1)):
        parts += [Same(into, out, stride), *norm(out)]
    return nn.Sequential(*parts, *up(64, 32), *up(32, 16), glorot(nn.Conv3d(16, 1, 3, padding=1)))


def clips(path, limit):
    x = np.fromfile(path, dtype=np.float32).reshape(-1, FRAMES, SIDE, SIDE)
    x = torch.from_numpy(x[:limit] if limit else x)
    return x[:, None, :FRAMES // 2], x[:, None, FRAMES // 2:]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("train")
    p.add_argument("test")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--micro-batch", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.001)
    p.add_argument("--limit-train", type=int, default=0)
    p.add_argument("--limit-test", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    net = network()
    print(f"{sum(q.numel() for q in net.parameters()):,} parameters that are trained", flush=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=a.lr, eps=1e-7)
    seen, follows = clips(a.train, a.limit_train)
    test_seen, test_follows = clips(a.test, a.limit_test)
    copied = F.mse_loss(test_seen[:, :, -1:].expand_as(test_follows), test_follows).item()
    print(f"the last frame again: {copied:.5f}", flush=True)
    for epoch in range(a.epochs):
        net.train()
        order, sums = torch.randperm(len(seen)), 0.0
        for at in range(0, len(order), a.batch_size):
            batch = order[at:at + a.batch_size]
            optimizer.zero_grad()
            for micro in batch.split(a.micro_batch):
                loss = F.mse_loss(net(seen[micro]), follows[micro]) * (len(micro) / len(batch))
                loss.backward()
                sums += loss.item() * len(batch)
            optimizer.step()
        net.eval()
        with torch.no_grad():
            y = torch.cat([net(x) for x in test_seen.split(100)])
        print(f"epoch {epoch + 1}: loss {sums / len(order):.5f}, test {F.mse_loss(y, test_follows).item():.5f}, "
              f"absolute {(y - test_follows).abs().mean().item():.5f}", flush=True)


if __name__ == "__main__":
    main()
