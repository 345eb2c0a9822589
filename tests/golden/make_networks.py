#!/usr/bin/env python3
"""Makes networks.json: what PyTorch computes for networks that are no classifiers of images, for tests/test_networks.c.

Run it in a virtual environment with torch, numpy and scikit-learn:

    python tests/golden/make_networks.py                       # writes tests/golden/networks.json
    python tests/golden/make_networks.py --only variational    # that network's numbers anew

The reference numbers are PyTorch's in float64: the losses of five steps of plain SGD, each loss of each step and their weighted sum,
and metrics of the same batch afterwards. The same steps in float32, and in bfloat16 under autocast, are made as well: how far their
losses are is recorded under "distance", and is what the tolerances of the test rest on.

The networks are in tests/networks.h and below. Nothing is stored that both sides can draw, with Philox as make_mnist_cnn.py has it, as
variant 60 for multi-label, 61 for auto-encoder, 62 for two-losses, 63 for embedding, 65 for small-parts, 66 for variational and for volumes, 64 for in-turn (two networks that
share a body, a step of one and then of the other):

    parameter p, element i (Keras's order)   (2 u - 1) * limit, u = (word i of stream p >> 8) / 2^24; limit is
                                             sqrt(6 / (fan_in + fan_out)) for kernels and tables, 0.05 for biases
    input k, element i (NHWC, NDHWC)              floating: 2 u - 1 from stream 100 + k
                                             labels: 1 where word i of stream 100 + k is below 0.3 * 2^32, else 0
                                             class numbers: that word % classes
"""
import argparse
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

from make_mnist_cnn import philox

BATCH, STEPS = 24, 5


def dense(x, w, name):
    return x @ w[name + "/kernel"] + w[name + "/bias"]


def conv(x, w, name, same):
    """x is (N, C, H, W), kernels are (KH, KW, C, filters)."""
    kernel = w[name + "/kernel"].permute(3, 2, 0, 1)
    return F.conv2d(x, kernel, w[name + "/bias"], padding=kernel.shape[2] // 2 if same else 0)


def multi_label(w, inputs):
    """14 labels at once, rare ones: what is there counts twice."""
    x, there = inputs
    x = F.max_pool2d(F.relu(conv(x, w, "conv2d", True)), 2)
    x = F.relu(conv(x, w, "conv2d_1", False)).mean((2, 3))
    x = dense(x, w, "dense")
    loss = F.binary_cross_entropy_with_logits(x, there, pos_weight=torch.tensor(2.0, dtype=x.dtype))
    return [loss], x


def auto_encoder(w, inputs):
    """The image itself is the target, through a code of half its height and width. Keras pads strides of 2 at the bottom and right."""
    (x,) = inputs
    y = F.conv2d(F.pad(x, (0, 1, 0, 1)), w["conv2d/kernel"].permute(3, 2, 0, 1), w["conv2d/bias"], stride=2)
    y = conv(F.relu(y), w, "code", True)
    # Its kernel is (KH, KW, filters, C).
    y = F.conv_transpose2d(y, w["conv2d_transpose/kernel"].permute(3, 2, 0, 1), w["conv2d_transpose/bias"], stride=2)
    y = conv(F.relu(y[:, :, :8, :8]), w, "conv2d_1", True)
    return [F.mse_loss(y, x)], y


CODE = 4  # of variational, its noise an input


def variational(w, inputs):
    """A normal distribution of an image, 4 means and behind them 4 log variances, and an image of a sample of it."""
    x, noise = inputs
    y = F.conv2d(F.pad(x, (0, 1, 0, 1)), w["conv2d/kernel"].permute(3, 2, 0, 1), w["conv2d/bias"], stride=2)
    code = dense(F.relu(y).permute(0, 2, 3, 1).flatten(1), w, "code")
    mean, logarithm = code[:, :CODE], code[:, CODE:]
    y = F.relu(dense(mean + torch.exp(logarithm / 2) * noise, w, "decoder")).reshape(-1, 4, 4, 4).permute(0, 3, 1, 2)
    y = F.conv_transpose2d(y, w["logits/kernel"].permute(3, 2, 0, 1), w["logits/bias"], stride=2)[:, :, :8, :8]
    reconstruction = F.binary_cross_entropy_with_logits(y, x, reduction="sum") / len(x)
    normal = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    found = torch.distributions.Normal(mean, torch.exp(logarithm / 2))
    return [reconstruction, 0.5 * torch.distributions.kl_divergence(found, normal).sum() / len(x)], y


def conv3d(x, w, name, **options):
    """x is (N, C, D, H, W), kernels are (KD, KH, KW, C, filters)."""
    return F.conv3d(x, w[name + "/kernel"].permute(4, 3, 0, 1, 2), w[name + "/bias"], **options)


def volumes(w, inputs):
    """What follows a clip, by convolutions and poolings over time, height and width."""
    x, target = inputs
    x = F.max_pool3d(F.relu(conv3d(x, w, "conv3d", padding=1)), (1, 2, 2))
    x = conv3d(x, w, "code", stride=(2, 1, 1), padding=(0, 1, 1))
    # Its kernel is (KD, KH, KW, filters, C).
    kernel = w["conv3d_transpose/kernel"].permute(4, 3, 0, 1, 2)
    x = F.relu(F.conv_transpose3d(x, kernel, w["conv3d_transpose/bias"], stride=2, padding=(0, 1, 1)))
    x = F.avg_pool3d(x, (1, 3, 3), stride=1, padding=(0, 1, 1), count_include_pad=False)
    x = conv3d(x, w, "conv3d_1", padding=1)
    return [F.mse_loss(x, target)], x


def two_losses(w, inputs):
    """An image and some numbers; a class and some numbers."""
    image, numbers, label, target = inputs
    x = F.relu(conv(image, w, "conv2d", False)).permute(0, 2, 3, 1).flatten(1)
    x = F.relu(dense(x, w, "of_image") + F.relu(dense(numbers, w, "of_numbers")))
    scores, y = dense(x, w, "scores"), dense(x, w, "values")
    return [F.cross_entropy(scores, label), 0.3 * F.mse_loss(y, target)], scores


def embedding(w, inputs):
    """The mean of what tokens are embedded as."""
    tokens, label = inputs
    x = w["embedding/embeddings"][tokens].mean(1)
    x = dense(F.relu(dense(x, w, "dense")), w, "dense_1")
    return [F.cross_entropy(x, label)], x


MICRO_BATCH = 4  # of small_parts, whose normalizations take it for the whole


def norm(x, w, name):
    gamma = w.get(name + "/gamma")
    return F.batch_norm(x, None, None, gamma, w[name + "/beta"], training=True, eps=1e-3)


def separable(x, w, name, same):
    """Kernels are (KH, KW, C, multiplier) and (1, 1, C * multiplier, filters)."""
    k = w[name + "/depthwise_kernel"]
    height, width, channels, multiplier = k.shape
    k = k.permute(2, 3, 0, 1).reshape(channels * multiplier, 1, height, width)
    x = F.conv2d(x, k, padding=height // 2 if same else 0, groups=channels)
    return F.conv2d(x, w[name + "/pointwise_kernel"].permute(3, 2, 0, 1), w.get(name + "/bias"))


def small_parts(w, inputs):
    """Separable convolutions, ReLUs that are cut off at 6, squeeze and excitation, a normalization without gamma."""
    scores = []
    for x in inputs[0].split(MICRO_BATCH):
        x = F.conv2d(2 * x + 0.25, w["conv2d/kernel"].permute(3, 2, 0, 1))
        x = (40 * norm(x, w, "batch_normalization") + 1).clamp(0, 6)
        x = norm(separable(x, w, "separable_conv2d", False), w, "batch_normalization_1").clamp(0, 6)
        s = torch.sigmoid(conv(x.mean((2, 3), keepdim=True), w, "conv2d_1", False))
        x = x + separable(x * s, w, "separable_conv2d_1", True)
        scores.append(dense(x.mean((2, 3)), w, "dense"))
    scores = torch.cat(scores)
    return [F.cross_entropy(scores, inputs[1])], scores


def body(w, image):
    return F.relu(dense(image.permute(0, 2, 3, 1).flatten(1), w, "body"))


def naming(w, inputs):
    x = dense(body(w, inputs[0]), w, "scores")
    return [F.cross_entropy(x, inputs[1])], x


def drawing(w, inputs):
    x = dense(body(w, inputs[0]), w, "values")
    return [F.mse_loss(x, inputs[2])], x


CONV = lambda name, size, inputs, filters: [(name + "/kernel", (size, size, inputs, filters)), (name + "/bias", (filters,))]
DENSE = lambda name, inputs, units: [(name + "/kernel", (inputs, units)), (name + "/bias", (units,))]

# The function, the variant, the rate; parameters; inputs as (kind, shape of a sample) with the number of classes for "classes".
NETWORKS = {
    "multi-label": (multi_label, 60, 0.5,
                    CONV("conv2d", 3, 3, 8) + CONV("conv2d_1", 3, 8, 16) + DENSE("dense", 16, 14),
                    [("floating", (12, 12, 3)), ("labels", (14,))]),
    "auto-encoder": (auto_encoder, 61, 0.5,
                     CONV("conv2d", 3, 3, 8) + CONV("code", 1, 8, 4)
                     + [("conv2d_transpose/kernel", (3, 3, 8, 4)), ("conv2d_transpose/bias", (8,))] + CONV("conv2d_1", 3, 8, 3),
                     [("floating", (8, 8, 3))]),
    "variational": (variational, 66, 0.01,
                    CONV("conv2d", 3, 1, 8) + DENSE("code", 128, 2 * CODE) + DENSE("decoder", CODE, 64)
                    + [("logits/kernel", (3, 3, 1, 4)), ("logits/bias", (1,))],
                    [("labels", (8, 8, 1)), ("floating", (CODE,))]),
    "volumes": (volumes, 66, 0.5,
                [("conv3d/kernel", (3, 3, 3, 2, 6)), ("conv3d/bias", (6,)), ("code/kernel", (2, 3, 3, 6, 4)), ("code/bias", (4,)),
                 ("conv3d_transpose/kernel", (2, 4, 4, 6, 4)), ("conv3d_transpose/bias", (6,)),
                 ("conv3d_1/kernel", (3, 3, 3, 6, 2)), ("conv3d_1/bias", (2,))],
                [("floating", (4, 6, 6, 2)), ("floating", (4, 6, 6, 2))]),
    "two-losses": (two_losses, 62, 0.1,
                   CONV("conv2d", 3, 2, 4) + DENSE("of_image", 64, 10) + DENSE("of_numbers", 5, 10)
                   + DENSE("scores", 10, 4) + DENSE("values", 10, 3),
                   [("floating", (6, 6, 2)), ("floating", (5,)), ("classes", (), 4), ("floating", (3,))]),
    "embedding": (embedding, 63, 0.5,
                  [("embedding/embeddings", (12, 6))] + DENSE("dense", 6, 8) + DENSE("dense_1", 8, 3),
                  [("classes", (10,), 12), ("classes", (), 3)]),
    "small-parts": (small_parts, 65, 0.1,
                    [("conv2d/kernel", (3, 3, 3, 8)), ("batch_normalization/gamma", (8,)), ("batch_normalization/beta", (8,)),
                     ("separable_conv2d/depthwise_kernel", (3, 3, 8, 2)),
                     ("separable_conv2d/pointwise_kernel", (1, 1, 16, 12)), ("separable_conv2d/bias", (12,)),
                     ("batch_normalization_1/beta", (12,))] + CONV("conv2d_1", 1, 12, 12)
                    + [("separable_conv2d_1/depthwise_kernel", (3, 3, 12, 1)),
                       ("separable_conv2d_1/pointwise_kernel", (1, 1, 12, 12))] + DENSE("dense", 12, 4),
                    [("floating", (8, 8, 3)), ("classes", (), 4)]),
}
IN_TURN = ((naming, drawing), 64, 0.1, DENSE("body", 72, 10) + DENSE("scores", 10, 4) + DENSE("values", 10, 3),
           [("floating", (6, 6, 2)), ("classes", (), 4), ("floating", (3,))])


def signed(stream, variant, shape):
    u = (philox(stream, math.prod(shape), variant) >> np.uint32(8)).astype(np.float64) * 2.0**-24
    return (2 * u - 1).reshape(shape)


def parameter(variant, p, name, shape):
    limit = 0.05
    if len(shape) > 1:
        limit = math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
    return (signed(p, variant, shape) * limit).astype(np.float32)


def batch(variant, k, kind, shape, classes=None):
    words = philox(100 + k, BATCH * math.prod(shape), variant)
    if kind == "classes":
        return torch.from_numpy((words % np.uint32(classes)).astype(np.int64).reshape((BATCH,) + shape))
    if kind == "labels":
        x = torch.from_numpy((words < 0.3 * 2.0**32).astype(np.float32).reshape((BATCH,) + shape))
        return x.permute(0, 3, 1, 2) if len(shape) == 3 else x
    x = torch.from_numpy(signed(100 + k, variant, (BATCH,) + shape).astype(np.float32))
    if len(shape) == 4:
        return x.permute(0, 4, 1, 2, 3)
    return x.permute(0, 3, 1, 2) if len(shape) == 3 else x


def step(w, parts, rate):
    """Plain SGD; gradients are those of the parameters that a loss depends on."""
    gradients = torch.autograd.grad(sum(parts), list(w.values()), allow_unused=True)
    with torch.no_grad():
        for t, g in zip(w.values(), gradients):
            if g is not None:
                t -= rate * g


def drawn(variant, parameters, inputs, dtype):
    w = {n: torch.from_numpy(parameter(variant, p, n, s)).to(dtype).requires_grad_() for p, (n, s) in enumerate(parameters)}
    x = [batch(variant, k, *i) for k, i in enumerate(inputs)]
    return w, [t if t.dtype == torch.int64 else t.to(dtype) for t in x]


def run(name, dtype, autocast=False):
    forward, variant, rate, parameters, inputs = NETWORKS[name]
    w, x = drawn(variant, parameters, inputs, dtype)

    def losses():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            return forward(w, x)

    out = {"losses": [], "parts": []}
    for _ in range(STEPS):
        parts, _ = losses()
        out["losses"].append(sum(parts).item())
        out["parts"].append([p.item() for p in parts])
        step(w, parts, rate)
    return out, x, losses()[1].detach()


def run_in_turn(dtype):
    """Five steps of each; losses in the order of the steps."""
    networks, variant, rate, parameters, inputs = IN_TURN
    w, x = drawn(variant, parameters, inputs, dtype)
    losses = []
    for i in range(2 * STEPS):
        parts, _ = networks[i % 2](w, x)
        losses.append(parts[0].item())
        step(w, parts, rate)
    return losses


def measured(name, x, y):
    """Metrics of the same batch after the steps."""
    if name == "multi-label":
        from sklearn.metrics import roc_auc_score  # which the others do without

        there, scores = x[1].numpy(), y.numpy()
        gap = min(abs(a - b) for l in range(14) for a in scores[there[:, l] == 1, l] for b in scores[there[:, l] == 0, l])
        areas = [roc_auc_score(there[:, l], scores[:, l]) for l in range(14)]
        return {"areas": areas, "mean_area": float(np.mean(areas)), "smallest_gap": float(gap),
                "accuracy": float(((scores > 0) == (there > 0.5)).mean())}
    if name == "variational":
        return {}
    if name == "auto-encoder":
        return {"absolute_error": float((y - x[0]).abs().mean())}
    if name == "volumes":
        return {"absolute_error": float((y - x[1]).abs().mean())}
    if name in ("embedding", "small-parts"):
        return {"accuracy": float((y.argmax(1) == x[1]).double().mean())}
    return {"top_2": float((y.topk(2).indices == x[2][:, None]).any(1).double().mean())}


def main():
    path = pathlib.Path(__file__).with_name("networks.json")
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="NETWORK", help="make the numbers of this one, and keep those of the others")
    only = parser.parse_args().only
    golden = {"made_with": f"PyTorch {torch.__version__}", "batch": BATCH, "networks": {}}
    if only:
        golden = json.loads(path.read_text())
    for name, (_, variant, rate, parameters, inputs) in NETWORKS.items():
        if only and name != only:
            continue
        reference, x, y = run(name, torch.float64)
        far = lambda other: max(abs(a - b) / b for a, b in zip(other["losses"], reference["losses"]))
        golden["networks"][name] = {
            "variant": variant, "rate": rate,
            "parameters": [{"name": n, "shape": s} for n, s in parameters],
            "inputs": [{"kind": i[0], "classes": i[2] if len(i) > 2 else 0} for i in inputs],
            **reference, "after": measured(name, x, y),
            "distance": {"float32": far(run(name, torch.float32)[0]), "bfloat16": far(run(name, torch.float32, True)[0])},
        }
    if not only:
        golden["networks"]["in-turn"] = in_turn()
    path.write_text(json.dumps(golden, indent=1) + "\n")


def in_turn():
    losses, single = run_in_turn(torch.float64), run_in_turn(torch.float32)
    return {
        "variant": IN_TURN[1], "rate": IN_TURN[2],
        "parameters": [{"name": n, "shape": s} for n, s in IN_TURN[3]],
        "inputs": [{"kind": i[0], "classes": i[2] if len(i) > 2 else 0} for i in IN_TURN[4]],
        "losses": losses, "distance": {"float32": max(abs(a - b) / b for a, b in zip(single, losses))},
    }


if __name__ == "__main__":
    main()
