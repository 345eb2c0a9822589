#!/usr/bin/env python3
"""What torchvision's own pipeline gives from a folder of images: random crop, mirror, normalization, batches in fp32. Prints JSON.

    torchvision_data.py FOLDER --setting pillow [--threads 1] [--seconds 10]

Settings: which library decodes (pillow, or torchvision's own decoder), and what the transforms work on. With one thread all happens in
this process; with more in so many processes of a DataLoader.
"""
import argparse
import json
import resource
import statistics
import time

SETTINGS = ["pillow", "pillow, v1 transforms", "torchvision.io", "torchvision.io, no antialias"]

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--list", action="store_true")
parser.add_argument("--setting", choices=SETTINGS, default=SETTINGS[0])
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=10)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
if args.list:
    print(json.dumps({"settings": SETTINGS}))
    raise SystemExit

import torch  # noqa: E402
import torchvision  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
torch.set_num_threads(1)  # each process has a core


def decode(path):
    return torchvision.io.decode_image(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)


def dataset():
    """ImageFolder with the reference's training transforms."""
    if args.setting == "pillow, v1 transforms":
        steps = v1.Compose([v1.RandomResizedCrop(args.image_size), v1.RandomHorizontalFlip(), v1.ToTensor(),
                            v1.Normalize(MEAN, DEVIATION)])
        return torchvision.datasets.ImageFolder(args.folder, steps)
    antialias = "no antialias" not in args.setting
    steps = [v2.RandomResizedCrop(args.image_size, antialias=antialias), v2.RandomHorizontalFlip()]
    if args.setting == "pillow":
        steps.append(v2.PILToTensor())
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    loader = {} if args.setting == "pillow" else {"loader": decode}
    return torchvision.datasets.ImageFolder(args.folder, v2.Compose(steps), **loader)


def cpu_seconds():
    total = 0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total


def batches():
    """Epochs without end, from workers that stay."""
    loader = torch.utils.data.DataLoader(dataset(), batch_size=args.batch_size, shuffle=True, drop_last=True,
                                         num_workers=args.threads if args.threads > 1 else 0,
                                         persistent_workers=args.threads > 1)
    while True:
        yield from loader


def measure():
    rates, images = [], 0
    source = batches()
    for _ in range(4):  # starts the workers
        next(source)
    begin, begin_cpu = time.perf_counter(), cpu_seconds()
    while time.perf_counter() - begin < args.seconds or len(rates) < 3:
        start, n = time.perf_counter(), 0
        while time.perf_counter() - start < args.seconds / 10:
            n += len(next(source)[0])
        rates.append(n / (time.perf_counter() - start))
        images += n
    # Those of children count once they have ended; then the sum is of all that happened, starting included.
    cpu = cpu_seconds() - begin_cpu if args.threads == 1 else None
    return statistics.median(rates), images / cpu if cpu else None


rate, per_cpu = measure()
print(json.dumps({"torchvision": torchvision.__version__, "setting": args.setting, "images_per_second": rate,
                  "images_per_cpu_second": per_cpu}))
