#!/usr/bin/env python3
"""All-reduce of gradients in PyTorch over gloo: microseconds for each size, beside `lockstep bench exchange` on the same machine.

    build/peers/bin/python bench/peers/allreduce_torch.py --workers 4

Processes of one thread each add up a vector of fp32 in place, as DistributedDataParallel does with a bucket, and then update weights
with it (weights -= rate * sum), as `lockstep bench exchange` does. Medians of worker 0, of as many rounds as two seconds hold, three at least.
"""
import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def exchange(gradients, weights, update):
    dist.all_reduce(gradients)
    if update:
        weights.add_(gradients, alpha=-1e-3)


def rounds(kib, update):
    """Seconds of each round. All workers run as many as worker 0 says."""
    gradients, weights = torch.full((kib * 256,), 1e-3), torch.zeros(kib * 256)
    times = []
    for _ in range(2):
        exchange(gradients, weights, update)
    begin = time.perf_counter()
    while True:
        go_on = torch.tensor([float(len(times) < 3 or time.perf_counter() - begin < 2)])
        dist.broadcast(go_on, 0)
        if not go_on.item():
            return times
        gradients.fill_(1e-3)
        dist.barrier()
        start = time.perf_counter()
        exchange(gradients, weights, update)
        times.append(time.perf_counter() - start)


def work(rank, args, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=args.workers)
    if rank == 0:
        print(f"{args.workers} workers, gloo of PyTorch {torch.__version__}\n{'KiB':>10}{'all-reduce us':>16}{'with update':>14}", flush=True)
    kib = args.first
    while True:
        plain, updated = (1e6 * statistics.median(rounds(kib, update)) for update in (False, True))
        if rank == 0:
            print(f"{kib:>10}{plain:>16.1f}{updated:>14.1f}", flush=True)
        if kib >= args.last:
            break
        kib = min(kib * 4, args.last)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--from", type=int, default=1024, dest="first", metavar="KiB", help="the smallest size (default: 1024)")
    parser.add_argument("--to", type=int, default=102400, dest="last", metavar="KiB", help="the largest (default: 102400)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(args, os.path.join(folder, "meeting")), nprocs=args.workers)


if __name__ == "__main__":
    main()
