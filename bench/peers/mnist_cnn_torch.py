#!/usr/bin/env python3
"""The mnist-cnn training step in PyTorch on CPU cores, at its best: what `lockstep bench mnist-cnn` is compared with.

One step is forward, loss, backward and Adam update of one batch of synthetic images held in memory, with dropout 0.5;
nothing else is timed (no loading, no metrics). Settings not given are tried, and the fastest is measured. Prints one
JSON object on standard output; progress goes to standard error. bench/peers/README.md says how to get PyTorch.
"""
import argparse
import os

import torch_peer  # sets up OpenMP before PyTorch is loaded
from torch_peer import FORMATS, Peer

import torch
import torch.nn as nn
import torch.nn.functional as F


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 128, 3)
        self.conv3 = nn.Conv2d(128, 256, 3)
        self.dropout = nn.Dropout(0.5)
        self.dense1 = nn.Linear(256, 1000)
        self.dense2 = nn.Linear(1000, 100)
        self.dense3 = nn.Linear(100, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x), inplace=True), 2)
        x = F.max_pool2d(F.relu(self.conv2(x), inplace=True), 2)
        x = F.max_pool2d(F.relu(self.conv3(x), inplace=True), 2)
        x = self.dropout(torch.flatten(x, 1))
        x = F.relu(self.dense1(x), inplace=True)
        x = F.relu(self.dense2(x), inplace=True)
        return self.dense3(x)


class MnistPeer(Peer):
    def network(self, setting):
        return MnistCnn()

    def make_optimizer(self, parameters, setting):
        return torch.optim.Adam(parameters, lr=1e-3, eps=1e-7, **{setting["optimizer"]: True})

    def image_shape(self, setting):
        return 1, 28, 28


def main():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    torch_peer.add_arguments(parser, batch=128)
    parser.add_argument("--optimizer", choices=["fused", "foreach"], help="how Adam is run; default: tries both")
    parser.add_argument("--flush-denormal", choices=["on", "off"], help="default: tries both")
    parser.add_argument("--blocks", type=int, default=50, help="blocks to take the median of (default 50)")
    args = parser.parse_args()
    choices = {
        "threads": [args.threads] if args.threads else sorted({1, cores}),
        "memory_format": [args.memory_format] if args.memory_format else list(FORMATS),
        "compile": [args.compile] if args.compile else ["off", "default"],
        "optimizer": [args.optimizer] if args.optimizer else ["fused", "foreach"],
        "flush_denormal": [args.flush_denormal] if args.flush_denormal else ["off", "on"],
    }
    torch_peer.main(MnistPeer, args, {}, choices,
                    (("threads", "memory_format"), ("compile", "memory_format"), ("optimizer", "flush_denormal")))


if __name__ == "__main__":
    main()
