#!/usr/bin/env python3
"""Makes resnet*.json: what PyTorch computes for four residual networks, for tests/test_golden_resnet.c to compare with.

Run it in a virtual environment with torch and numpy (bench/peers/README.md says how):

    python tests/golden/make_resnet.py                   # writes tests/golden/resnet50.json and three more
    python tests/golden/make_resnet.py --search 50       # looks for other variants of the draws, see below

The networks are those of keras_resnet.py, which are Keras's. The reference numbers are PyTorch's in float64. The same in
float32, and in bfloat16 under autocast, is made as well: how far those are from float64 is recorded under "distance", and is
what the tolerances of the test rest on.

One batch is one micro-batch. A file has its logits, the sum of its losses and the gradient of that sum; then the mean losses
of ten steps of SGD on the same batch (Keras's formula, mean gradient), each before its update; then the moving statistics and
the logits in inference mode. Tensors are given by their norm and four projections: projection j is the sum of +x and -x
over the elements, minus where bit j of a word drawn for the element is set. The projections of an error are, squared and on
average, its squared norm; so four of them tell how far off a tensor is, whatever is wrong with it: values, signs or order.

Weights, images, labels and signs are drawn on both sides from Philox4x32-10 (src/base/philox.h). Word i of stream s is word
i % 4 of the block with counter (i / 4, s, variant, 0) under KEY. Tensors are numbered by p from 0 in the file's order.

    tensor p, element i (Keras's order):  u = (word i of stream p >> 8) / 2^24, value = float32(middle + (2 u - 1) * width),
                                          negated for odd i where "draw" has a third number
    signs of tensor p, element i:         the bits of word i of stream 30000 + p
    pixel i of the batch (NHWC):          k = (3 (word c of stream 10000 >> 24) + (word i of stream 10001 >> 24)) >> 2, where c
                                          is the index of pixel (n, h / 8, w / 8, channel) in (N, H / 8, W / 8, C);
                                          value = (float32(k) - 127.5) / 127.5 in float32
    label i:                              word i of stream 10002 % 10

Plain noise would make all samples look alike to the network; hence the patches of eight by eight pixels.

The rest is against bad luck. A value on the edge of a ReLU, or two that compete in a pooling window, may fall to either side
by rounding, and one such value among a hundred thousand moves a gradient by 1/sqrt(100000), three times what the test
allows. So channels are normalized to a beta that is away from zero, in turn above and below; a residual branch ends in
small values, so that 50 layers do not amplify errors; and the variants are those in which no value comes near an edge:
"margin" is the least distance from one, in units of the root mean square of float32's errors in that layer. It covers what
every ReLU and every window of a maximum pooling reads in the first step, the zeros around the image included. With a beta of
2.0 standard deviations resnet50v2 has 0.37 values within one such error on average, with 2.5 half as many: there the first
variant has a margin of 15. The steps after the first have no margin; a value that changes sides there counts by the learning
rate, which is low for that.
"""
import argparse
import contextlib
import json
import math
import pathlib
import re

import numpy as np
import torch
import torch.nn.functional as F

import keras_resnet
from make_mnist_cnn import philox, shorten

# beta: the distance from zero, in standard deviations of the normalized values.
FILES = {
    "resnet50": {"size": 64, "batch": 4, "beta": 2.0, "lr": 0.001, "variant": 0},
    "resnet50v2": {"size": 64, "batch": 4, "beta": 2.5, "lr": 0.001, "variant": 0},
    "resnet20": {"size": 32, "batch": 8, "beta": 1.5, "lr": 0.01, "variant": 50},
    "resnet20v2": {"size": 32, "batch": 8, "beta": 2.0, "lr": 0.002, "variant": 6},
}
CLASSES, STEPS, MOMENTUM, BRANCH = 10, 10, 0.9, 0.25
STREAM_PATCHES, STREAM_NOISE, STREAM_LABELS, STREAM_SIGNS = 10000, 10001, 10002, 30000
PATCH, PROJECTIONS = 8, 4


def initial(network, name, shape):
    """Middle and half the width of the range a tensor's elements are drawn from; a 1 as well where odd ones are negated."""
    layer, kind = name.split("/")
    if kind.startswith("moving"):
        return [1.0 if kind == "moving_variance" else 0.0, 0.0]
    if kind == "bias":
        return [0.0, 0.1]
    # What a residual branch ends with: in v1 a normalization, in v2 a convolution.
    is_last = layer.endswith(("_3_conv", "_branch2b") if network.endswith("v2") else ("_3_bn", "_branch2b"))
    scale = BRANCH if is_last else 1.0
    if kind == "gamma":
        return [scale, 0.25 * scale] if not network.endswith("v2") else [1.0, 0.25]
    if kind == "beta":
        beta = FILES[network]["beta"] * (1.0 if network.endswith("v2") else scale)
        return [beta, 0.25 * beta, 1]
    fan_in = math.prod(shape[:-1])
    return [0.0, scale * math.sqrt(6.0 / (fan_in if len(shape) == 4 else fan_in + shape[-1]))]


class Run:
    """A network in one precision, with its initial weights and its batch."""

    def __init__(self, network, dtype, autocast=False, variant=None):
        self.file = FILES[network]
        self.variant = self.file["variant"] if variant is None else variant
        self.pixels, labels = self.batch()
        pixels = (self.pixels.astype(np.float32) - np.float32(127.5)) / np.float32(127.5)
        self.x = torch.from_numpy(pixels).to(dtype).permute(0, 3, 1, 2)
        self.labels = torch.from_numpy(labels)
        self.autocast = autocast
        self.net = keras_resnet.Net(network, CLASSES).to(dtype)
        self.tensors = self.net.weights()
        self.draws = [initial(network, w.name, w.keras().shape) for w in self.tensors]
        for p, w in enumerate(self.tensors):
            w.set(torch.from_numpy(self.draw(p)))

    def words(self, stream, count):
        return philox(stream, count, self.variant)

    def draw(self, p):
        """Tensor p's initial value: float32, in Keras's shape."""
        shape, (middle, width, *negated) = self.tensors[p].keras().shape, self.draws[p]
        u = (self.words(p, shape.numel()) >> np.uint32(8)).astype(np.float64) * 2.0**-24
        value = (middle + (2.0 * u - 1.0) * width).astype(np.float32)
        if negated:
            value[1::2] *= -1
        return value.reshape(tuple(shape))

    def batch(self):
        """The pixels k (N, H, W, C) as integers, and the labels (N)."""
        count, size, patches = self.file["batch"], self.file["size"], self.file["size"] // PATCH
        coarse = self.words(STREAM_PATCHES, count * patches * patches * 3).reshape(count, patches, patches, 3)
        noise = self.words(STREAM_NOISE, count * size * size * 3).reshape(count, size, size, 3)
        coarse = (coarse >> np.uint32(24)).repeat(PATCH, 1).repeat(PATCH, 2)
        k = (np.uint32(3) * coarse + (noise >> np.uint32(24))) >> np.uint32(2)
        return k, (self.words(STREAM_LABELS, count) % np.uint32(CLASSES)).astype(np.int64)

    def logits(self):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            logits = self.net(self.x)
        return logits.float() if self.autocast else logits

    def measure(self):
        """All that a file says, in float64. The weights are trained afterwards."""
        trained = [w.tensor for w in self.tensors if w.trainable]
        velocity = [torch.zeros_like(w) for w in trained]
        out = {"losses": []}
        for step in range(STEPS):
            logits = self.logits()
            loss = F.cross_entropy(logits, self.labels, reduction="sum")
            gradients = torch.autograd.grad(loss, trained)
            if step == 0:
                out["logits"], out["loss"] = logits.detach().double(), loss.item()
                given = iter(gradients)
                out["tensors"] = [w.keras(next(given)).double().flatten() if w.trainable else None for w in self.tensors]
            out["losses"].append(loss.item() / len(self.labels))
            with torch.no_grad():
                for w, v, g in zip(trained, velocity, gradients):
                    v.mul_(MOMENTUM).sub_(self.file["lr"] * (g / len(self.labels)))
                    w.add_(v)
        self.net.eval()
        with torch.no_grad():
            out["inference"] = self.logits().double()
        # Trained tensors by their gradients, the others by their values in the end.
        out["tensors"] = [w.tensor.double() if t is None else t for w, t in zip(self.tensors, out["tensors"])]
        # In front of a normalization a bias has no effect, and no gradient but rounding errors.
        out["norms"] = [t.norm().item() for t in out["tensors"]]
        for p, w in enumerate(self.tensors):
            if w.name.endswith("/bias") and out["norms"][p] < 1e-9 * out["norms"][p - 1]:
                out["norms"][p] = out["norms"][p - 1]
                out["tensors"][p] = torch.zeros_like(out["tensors"][p]) if self.x.dtype == torch.float64 else out["tensors"][p]
        return out


def distance(a, b, tensors):
    """How far run `a` is from the reference `b`: norm-wise for tensors, the largest relative one for losses."""
    norm = lambda x, y: ((x - y).norm() / y.norm()).item()
    errors = [(x - y).norm().item() / n for x, y, n in zip(a["tensors"], b["tensors"], b["norms"])]
    gradients = sorted((e, w.name) for e, w in zip(errors, tensors) if w.trainable)
    return {
        "logits": norm(a["logits"], b["logits"]),
        "loss": abs(a["loss"] - b["loss"]) / b["loss"],
        "gradients": {"median": gradients[len(gradients) // 2][0], "worst": gradients[-1][0], "of": gradients[-1][1]},
        "losses": [abs(x - y) / y for x, y in zip(a["losses"], b["losses"])],
        "statistics": max(e for e, w in zip(errors, tensors) if not w.trainable),
        "inference_logits": norm(a["inference"], b["inference"]),
    }


@contextlib.contextmanager
def watched_edges(note):
    """Within, what ReLUs and maximum poolings read is passed to `note` as distances from their edges."""
    relu, max_pool2d = F.relu, F.max_pool2d

    def watch_relu(x, inplace=False):
        note(x)
        return relu(x, inplace=inplace)

    def watch_pool(x, size, stride, padding=0):
        windows = F.pad(x, (padding,) * 4, value=-torch.inf).unfold(2, size, stride).unfold(3, size, stride).flatten(4)
        best = windows.amax(4, keepdim=True)
        # Equal ones are zeros, of the padding or cut off by a ReLU, and compete as one with the next below.
        note((best - windows.where(windows < best, -torch.inf)).amin(4))
        return max_pool2d(x, size, stride, padding)

    F.relu, F.max_pool2d = watch_relu, watch_pool
    try:
        yield
    finally:
        F.relu, F.max_pool2d = relu, max_pool2d


def margin(network, variant=None):
    """The least distance of a value from an edge, over the root mean square of float32's errors in its layer."""
    run, seen = Run(network, torch.float64, variant=variant), []
    for dtype in (torch.float64, torch.float32):  # the weights are float32 to begin with
        run.net, run.x, distances = run.net.to(dtype), run.x.to(dtype), []
        with torch.no_grad(), watched_edges(lambda x: distances.append(x.to(torch.float64, copy=True))):
            run.logits()
        seen.append(distances)
    return min((a.abs().min() / (a - b).nan_to_num(0).square().mean().sqrt()).item() for a, b in zip(*seen))


def summary(run, p, tensor):
    words = torch.from_numpy(run.words(STREAM_SIGNS + p, tensor.numel()).astype(np.int64))
    return [tensor.norm().item()] + [(tensor * (1 - 2 * (words >> j & 1))).sum().item() for j in range(PROJECTIONS)]


def make(network):
    file, run = FILES[network], Run(network, torch.float64)
    tensors, checksum = [], 0.0
    for p, w in enumerate(run.tensors):
        tensors.append({"name": w.name, "shape": list(w.keras().shape), "draw": run.draws[p]})
        checksum += run.draw(p).astype(np.float64).sum()
    reference = run.measure()
    for p, entry in enumerate(tensors):
        values = [float(f"{x:.7g}") for x in summary(run, p, reference["tensors"][p])]
        entry["gradient" if run.tensors[p].trainable else "final"] = values
    return {
        "made_by": f"tests/golden/make_resnet.py with torch {torch.__version__}, float64",
        "model": network,
        "image_size": file["size"],
        "batch": file["batch"],
        "variant": file["variant"],
        "weight_sum": checksum,
        "pixel_sum": int(run.pixels.sum()),
        "labels": run.labels.tolist(),
        "logits": reference["logits"].flatten().tolist(),
        "loss_sum": reference["loss"],
        "correct": int((reference["logits"].argmax(1) == run.labels).sum()),
        "sgd": {"lr": file["lr"], "momentum": MOMENTUM, "losses": reference["losses"]},
        "inference_logits": reference["inference"].flatten().tolist(),
        "tensors": tensors,
        "margin": margin(network),
        "distance": {
            "float32": distance(Run(network, torch.float32).measure(), reference, run.tensors),
            "bfloat16": distance(Run(network, torch.float32, autocast=True).measure(), reference, run.tensors),
        },
    }


def text_of(golden):
    """JSON with one line for each list of numbers and for each tensor."""
    text = json.dumps(shorten(golden), indent=1)
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
    return re.sub(r"\{\s+(\"name\"[^{}]*?)\s+\}", lambda m: "{" + re.sub(r"\s*\n\s*", " ", m.group(1)) + "}", text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("networks", nargs="*", choices=[[], *FILES], help="default: all")
    parser.add_argument("--search", type=int, metavar="N", help="look for the best margin among N variants instead")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent,
                        help="the folder to write to (default: beside this script)")
    args = parser.parse_args()
    for network in args.networks or FILES:
        if args.search:
            best = 0.0
            for variant in range(args.search):
                found = margin(network, variant)
                if found > best:
                    print(network, f"variant {variant}: margin {found:.2f}", flush=True)
                best = max(best, found)
            continue
        golden = make(network)
        (args.out / f"{network}.json").write_text(text_of(golden))
        print(network, json.dumps(shorten({k: golden[k] for k in ("sgd", "margin", "distance")}), indent=1), flush=True)


if __name__ == "__main__":
    main()
