#!/usr/bin/env python3
"""A network's training step in PyTorch on CPU cores, at its best: beside `lockstep bench resnet50v2` and others.

    python bench/peers/networks_torch.py resnet50v2 --image-size 128 --batch 64
    python bench/peers/networks_torch.py densenet121 --image-size 128 --batch 32

The residual networks are those of tests/golden/keras_resnet.py: the same as Lockstep's and Keras's, layer by layer. The others
are torchvision's by that name; what it does otherwise than Keras is said in docs/models.md and takes no time. One step is
forward, loss, backward and SGD update (momentum 0.9) of one batch of synthetic images held in memory; nothing else is timed.
With --micro-batch a step does that many images at a time and adds up their gradients, which takes less memory. Settings
not given are tried, and the fastest is measured. Prints one JSON object on standard output; progress goes to standard error.
"""
import argparse
import os
import pathlib
import sys

import torch_peer  # sets up OpenMP before PyTorch is loaded
from torch_peer import FORMATS, Peer

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
import keras_resnet


# Lockstep's names: torchvision's, and the side of their images.
TORCHVISION = {
    "alexnet": ("alexnet", 224), "vgg16": ("vgg16", 224), "vgg19": ("vgg19", 224), "resnet18": ("resnet18", 224),
    "resnet34": ("resnet34", 224), "resnext50": ("resnext50_32x4d", 224), "densenet121": ("densenet121", 224),
    "mobilenetv2": ("mobilenet_v2", 224), "efficientnetb0": ("efficientnet_b0", 224),
}


class NetworkPeer(Peer):
    kept_batches = 2  # of so many megabytes that none stays in the cache

    def network(self, setting):
        if setting["model"] in TORCHVISION:
            import torchvision
            return getattr(torchvision.models, TORCHVISION[setting["model"]][0])(num_classes=setting["classes"])
        return keras_resnet.Net(setting["model"], setting["classes"], batch_norm=torch.nn.BatchNorm2d)

    def make_optimizer(self, parameters, setting):
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, **{setting["optimizer"]: True})

    def image_shape(self, setting):
        return 3, setting["image_size"], setting["image_size"]


def physical_cores():
    """How many cores we may use when hardware threads of one core count once."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else cpu)
    return len(cores)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", choices=[*keras_resnet.NETWORKS, *TORCHVISION])
    parser.add_argument("--image-size", type=int, help="default: the network's own")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--micro-batch", type=int, help="images at a time; default: tries the batch and half of it")
    torch_peer.add_arguments(parser, batch=64)
    parser.add_argument("--optimizer", choices=["fused", "foreach"], help="how SGD is run; default: tries both")
    parser.add_argument("--blocks", type=int, default=10, help="blocks to take the median of (default 10)")
    args = parser.parse_args()
    if args.micro_batch and args.batch % args.micro_batch:
        parser.error(f"a batch of {args.batch} cannot be cut into micro-batches of {args.micro_batch}")
    cores = len(os.sched_getaffinity(0))
    halves = [args.batch // 2] if args.batch % 2 == 0 else []
    choices = {
        "threads": [args.threads] if args.threads else sorted({physical_cores(), cores}),
        "memory_format": [args.memory_format] if args.memory_format else list(FORMATS),
        "micro_batch": [args.micro_batch] if args.micro_batch else [args.batch, *halves],
        "compile": [args.compile] if args.compile else ["off", "default"],
        "optimizer": [args.optimizer] if args.optimizer else ["fused", "foreach"],
    }
    extra = {"model": args.model, "classes": args.classes,
             "image_size": args.image_size or {**TORCHVISION, **keras_resnet.NETWORKS}[args.model][1]}
    torch_peer.main(NetworkPeer, args, extra, choices,
                    (("threads", "memory_format"), ("compile",), ("micro_batch",), ("optimizer",)))


if __name__ == "__main__":
    main()
