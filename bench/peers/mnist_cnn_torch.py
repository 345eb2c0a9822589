#!/usr/bin/env python3
"""The mnist-cnn training step in PyTorch on CPU cores, at its best: what `lockstep bench mnist-cnn` is compared with.

One step is forward, loss, backward and Adam update of one batch of synthetic images held in memory, with dropout 0.5;
nothing else is timed (no loading, no metrics). Settings not given are tried, and the fastest is measured. Prints one
JSON object on standard output; progress goes to standard error. bench/peers/README.md says how to get PyTorch.
"""
import argparse
import ctypes
import itertools
import json
import math
import os
import statistics
import sys
import time

# How long an OpenMP thread of PyTorch's spins before it sleeps. The default (seconds) costs it a few per cent on idle
# cores, and a factor of ten and more when anything else runs; read when PyTorch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    sys.exit(f"{sys.executable} has no PyTorch; bench/peers/README.md says how to get it")

FORMATS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}


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


class Peer:
    """The network under one setting, ready to step."""

    def __init__(self, setting):
        torch.manual_seed(42)
        torch.set_num_threads(setting["threads"])
        torch.set_flush_denormal(setting["flush_denormal"] == "on")
        layout = FORMATS[setting["memory_format"]]
        self.bf16 = setting["precision"] == "bf16"
        self.model = MnistCnn().to(memory_format=layout).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, eps=1e-7,
                                          **{setting["optimizer"]: True})
        # A few batches in turn, so that no batch's images simply stay in the cache.
        self.batches = [(torch.rand(setting["batch"], 1, 28, 28).to(memory_format=layout),
                         torch.randint(0, 10, (setting["batch"],))) for _ in range(8)]
        if self.bf16:
            self.batches = [(x.bfloat16(), y) for x, y in self.batches]
        compiled = setting["compile"] != "off"
        self.loss = torch.compile(self.loss_of, mode=setting["compile"]) if compiled else self.loss_of
        self.done = 0

    def loss_of(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            logits = self.model(x)
        return F.cross_entropy(logits.float(), y)

    def step(self):
        x, y = self.batches[self.done % len(self.batches)]
        self.done += 1
        self.loss(x, y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def times(self, seconds):
        """The seconds of single steps, for about so long; at least three."""
        taken, now = [], time.perf_counter()
        end = now + seconds
        while now < end or len(taken) < 3:
            self.step()
            before, now = now, time.perf_counter()
            taken.append(now - before)
        return taken


def probe(setting):
    """The best step of a short trial, in seconds (the best, for others on the machine only ever slow a step down);
    None where the setting does not work."""
    torch.compiler.reset()
    try:
        peer = Peer(setting)
        peer.times(0.5)  # compiles, packs, allocates
        return min(peer.times(1.0))
    except Exception as error:  # a failed compilation, say: not a candidate
        print(f"  does not work: {str(error).splitlines()[0]}", file=sys.stderr)
        return None


def search(setting, choices):
    """Tries every combination of the choices {name: values} within the setting and returns the fastest."""
    tried = []
    for values in itertools.product(*choices.values()):
        candidate = {**setting, **dict(zip(choices, values))}
        seconds = probe(candidate) if math.prod(map(len, choices.values())) > 1 else 0.0
        if seconds:
            print(f"  {dict(zip(choices, values))}: {seconds * 1e3:.2f} ms", file=sys.stderr, flush=True)
        if seconds is not None:
            tried.append((seconds, len(tried), candidate))
    if not tried:
        sys.exit("no setting works; give one with --threads, --memory-format and --compile off")
    return min(tried)[2]


def keep_memory():
    """Tells the C library's malloc to keep what is freed. By default it hands large blocks back to the system, which
    clears and maps each activation anew, in every step; PyTorch's tuning guide recommends another malloc for that."""
    libc = ctypes.CDLL(None)
    m_trim_threshold, m_mmap_max = -1, -4  # of malloc.h
    libc.mallopt(m_mmap_max, 0)
    libc.mallopt(m_trim_threshold, 2**31 - 1)


def main():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, help=f"default: tries 1 and {cores}, the cores there are")
    parser.add_argument("--memory-format", choices=list(FORMATS), help="default: tries both")
    parser.add_argument("--compile", choices=["off", "default", "max-autotune"],
                        help="torch.compile's mode; default: tries the first two")
    parser.add_argument("--optimizer", choices=["fused", "foreach"], help="how Adam is run; default: tries both")
    parser.add_argument("--flush-denormal", choices=["on", "off"], help="default: tries both")
    parser.add_argument("--steps", type=int, default=0, help="steps per block (default: as many as fill 0.1 s)")
    parser.add_argument("--blocks", type=int, default=50, help="blocks to take the median of (default 50)")
    parser.add_argument("--malloc", choices=["keep", "stock"], default="keep",
                        help="keep: the C library keeps freed memory (default, faster); stock: as it comes")
    args = parser.parse_args()

    if args.malloc == "keep":
        keep_memory()

    choices = {
        "threads": [args.threads] if args.threads else sorted({1, cores}),
        "memory_format": [args.memory_format] if args.memory_format else list(FORMATS),
        "compile": [args.compile] if args.compile else ["off", "default"],
        "optimizer": [args.optimizer] if args.optimizer else ["fused", "foreach"],
        "flush_denormal": [args.flush_denormal] if args.flush_denormal else ["off", "on"],
    }
    setting = {"precision": args.precision, "batch": args.batch, "malloc": args.malloc}
    setting.update((name, values[0]) for name, values in choices.items())
    # In rounds: what depends on each other together.
    for names in (("threads", "memory_format"), ("compile", "memory_format"), ("optimizer", "flush_denormal")):
        setting = search(setting, {name: choices[name] for name in names})

    torch.compiler.reset()
    peer = Peer(setting)
    step = min(peer.times(1.0))
    steps = args.steps or max(1, round(0.1 / step))
    blocks = []
    for _ in range(args.blocks):
        begin = time.perf_counter()
        for _ in range(steps):
            peer.step()
        blocks.append((time.perf_counter() - begin) / steps)
    median, best = statistics.median(blocks), min(blocks)
    print(json.dumps({
        "images_per_second": round(args.batch / median, 1),
        "step_ms": round(median * 1e3, 4),
        "best_images_per_second": round(args.batch / best, 1),
        "best_step_ms": round(best * 1e3, 4),
        "blocks": args.blocks,
        "steps_per_block": steps,
        "setting": setting,
        "torch": torch.__version__,
    }))


if __name__ == "__main__":
    main()
