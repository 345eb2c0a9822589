#!/usr/bin/env python3
"""Residual networks in PyTorch, layer for layer as Keras users have them: used by make_resnet.py and bench/peers.

    resnet50, resnet101, resnet152            Keras Applications' ResNet50, ... (He et al. 2015, arXiv:1512.03385)
    resnet50v2, resnet101v2, resnet152v2      Keras Applications' ResNet50V2, ... (He et al. 2016, arXiv:1603.05027)
    resnet20, 32, 44, 56, 110                 for CIFAR: TensorFlow's official resnet_cifar_model (He et al. 2015, section 4.2)
    resnet20v2, 32v2, 44v2, 56v2, 110v2       the same with the blocks of He et al. 2016 (figure 4e); names by analogy

Layers and parameters have Keras's names, and parameters() of Net come in Keras's order of creation and, through Weight, in
Keras's shapes. Run as a program, it builds every network and compares its parameter count with the published one; with --keras
it also compares outputs, gradients and moving statistics with Keras itself (pip install keras), in float64:

    KERAS_BACKEND=torch python tests/golden/keras_resnet.py --keras
"""
import argparse
import collections
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class BatchNorm(nn.BatchNorm2d):
    """PyTorch's, but the moving variance moves towards the batch's variance over N values (Keras), not N - 1."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        part = torch.zeros_like(self.running_var)  # becomes momentum * the variance with N - 1
        y = F.batch_norm(x, self.running_mean, part, self.weight, self.bias, True, self.momentum, self.eps)
        values = x.numel() // x.shape[1]
        self.running_var.mul_(1 - self.momentum).add_(part * ((values - 1) / values))
        return y


# One parameter: Keras's name, and the tensor in PyTorch's layout.
class Weight(collections.namedtuple("Weight", "name tensor trainable")):
    __slots__ = ()

    def keras(self, tensor=None):
        """The tensor (default: the parameter itself) in Keras's shape: OIHW to HWIO, (out, in) to (in, out)."""
        value = (self.tensor if tensor is None else tensor).detach()
        return value.permute(2, 3, 1, 0) if value.dim() == 4 else value.t() if value.dim() == 2 else value

    def set(self, value):
        """Takes a value in Keras's shape."""
        with torch.no_grad():
            self.keras().copy_(value)


class Net(nn.Module):
    """A network by name. The first forward pass, through the layer functions below, creates the layers it passes."""

    def __init__(self, name, classes=None, batch_norm=BatchNorm):
        super().__init__()
        if name not in NETWORKS:
            sys.exit(f"there is no network named {name}; there are {', '.join(NETWORKS)}")
        self.graph, self.size, own_classes, self.bn_epsilon, self.bn_momentum = NETWORKS[name]
        self.classes = classes or own_classes
        self.batch_norm = batch_norm
        self.layers = nn.ModuleDict()
        self.building = True
        self.eval()
        with torch.no_grad():
            self(torch.zeros(1, 3, 32, 32))
        self.building = False
        self.train()

    def forward(self, x):
        return self.graph(self, x)

    def layer(self, name, make):
        if self.building:
            assert name not in self.layers
            self.layers[name] = make().train(self.training)
        return self.layers[name]

    # The layers. Padding is "valid", "same" (Keras's SAME: the odd one goes after), or a number of zeros around.
    def conv(self, x, name, filters, kernel, stride=1, padding="valid", bias=True):
        pads = {"valid": 0, "same": (kernel - 1) // 2}.get(padding, padding)
        if padding == "same" and stride > 1:
            sides = []
            for extent in (x.shape[3], x.shape[2]):  # F.pad begins with the last dimension
                total = max((math.ceil(extent / stride) - 1) * stride + kernel - extent, 0)
                sides += [total // 2, total - total // 2]
            if len(set(sides)) == 1:
                pads = sides[0]
            else:
                x, pads = F.pad(x, sides), 0
        conv = self.layer(name, lambda: nn.Conv2d(x.shape[1], filters, kernel, stride, bias=bias))
        return F.conv2d(x, conv.weight, conv.bias, stride, pads)

    def bn(self, x, name):
        return self.layer(name, lambda: self.batch_norm(x.shape[1], self.bn_epsilon, 1 - self.bn_momentum))(x)

    def bn_relu(self, x, name):
        return F.relu(self.bn(x, name), inplace=True)

    def dense(self, x, name, units):
        return self.layer(name, lambda: nn.Linear(x.shape[1], units))(x)

    def weights(self):
        """All parameters and moving statistics, in Keras's order of creation."""
        out = []
        for name, layer in self.layers.items():
            if isinstance(layer, nn.BatchNorm2d):
                out.append(Weight(f"{name}/gamma", layer.weight, True))
                out.append(Weight(f"{name}/beta", layer.bias, True))
                out.append(Weight(f"{name}/moving_mean", layer.running_mean, False))
                out.append(Weight(f"{name}/moving_variance", layer.running_var, False))
            else:
                out.append(Weight(f"{name}/kernel", layer.weight, True))
                if layer.bias is not None:
                    out.append(Weight(f"{name}/bias", layer.bias, True))
        return out


def block_v1(net, x, name, filters, stride, projection):
    shortcut = x
    if projection:
        shortcut = net.bn(net.conv(x, f"{name}_0_conv", 4 * filters, 1, stride), f"{name}_0_bn")
    x = net.bn_relu(net.conv(x, f"{name}_1_conv", filters, 1, stride), f"{name}_1_bn")
    x = net.bn_relu(net.conv(x, f"{name}_2_conv", filters, 3, padding="same"), f"{name}_2_bn")
    x = net.bn(net.conv(x, f"{name}_3_conv", 4 * filters, 1), f"{name}_3_bn")
    return F.relu(x.add_(shortcut), inplace=True)


def block_v2(net, x, name, filters, stride, projection):
    preact = net.bn_relu(x, f"{name}_preact_bn")
    if projection:
        shortcut = net.conv(preact, f"{name}_0_conv", 4 * filters, 1, stride)
    else:
        shortcut = x[:, :, ::stride, ::stride] if stride > 1 else x  # Keras: MaxPooling2D(1, strides=stride)
    x = net.bn_relu(net.conv(preact, f"{name}_1_conv", filters, 1, bias=False), f"{name}_1_bn")
    x = net.bn_relu(net.conv(x, f"{name}_2_conv", filters, 3, stride, padding=1, bias=False), f"{name}_2_bn")
    return net.conv(x, f"{name}_3_conv", 4 * filters, 1).add_(shortcut)


def imagenet(blocks, v2):
    """Keras Applications: V1 has its strides in the first block of a stack, V2 in the last (and none in conv5)."""

    def graph(net, x):
        x = net.conv(x, "conv1_conv", 64, 7, 2, padding=3)
        if not v2:
            x = net.bn_relu(x, "conv1_bn")
        if v2:  # Keras pads with zeros; only behind a ReLU is that the same as PyTorch's padding with -infinity
            x = F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2)
        else:
            x = F.max_pool2d(x, 3, 2, 1)
        for stack, count in enumerate(blocks):
            for i in range(count):
                name = f"conv{stack + 2}_block{i + 1}"
                if v2:
                    x = block_v2(net, x, name, 64 << stack, 2 if i == count - 1 and stack < 3 else 1, i == 0)
                else:
                    x = block_v1(net, x, name, 64 << stack, 2 if i == 0 and stack > 0 else 1, i == 0)
        if v2:
            x = net.bn_relu(x, "post_bn")
        return net.dense(x.mean((2, 3)), "predictions", net.classes)

    return graph, 224, 1000, 1.001e-5, 0.99


def basic_v1(net, x, name, filters, stride, projection):
    begin = x
    x = net.bn_relu(net.conv(x, f"res{name}2a", filters, 3, stride, "same", bias=False), f"bn{name}2a")
    x = net.bn(net.conv(x, f"res{name}2b", filters, 3, 1, "same", bias=False), f"bn{name}2b")
    shortcut = begin
    if projection:
        shortcut = net.bn(net.conv(begin, f"res{name}1", filters, 1, stride, bias=False), f"bn{name}1")
    return F.relu(x.add_(shortcut), inplace=True)


def basic_v2(net, x, name, filters, stride, projection):
    preact = net.bn_relu(x, f"bn{name}2a")
    begin = x
    x = net.conv(preact, f"res{name}2a", filters, 3, stride, "same", bias=False)
    x = net.bn_relu(x, f"bn{name}2b")
    x = net.conv(x, f"res{name}2b", filters, 3, 1, "same", bias=False)
    return x.add_(net.conv(preact, f"res{name}1", filters, 1, stride, bias=False) if projection else begin)


def cifar(n, v2):
    """6n + 2 layers. V1 projects in the first block of every stage, V2 (as its paper) only where shapes change."""

    def graph(net, x):
        x = net.conv(x, "conv1", 16, 3, padding=1, bias=False)
        if not v2:
            x = net.bn_relu(x, "bn_conv1")
        for stage, filters, first in ((2, 16, 1), (3, 32, 2), (4, 64, 2)):
            for i in range(n):
                block, stride = basic_v2 if v2 else basic_v1, first if i == 0 else 1
                x = block(net, x, f"{stage}block_{i}_branch", filters, stride, i == 0 and (not v2 or stage > 2))
        if v2:
            x = net.bn_relu(x, "bn_post")
        return net.dense(x.mean((2, 3)), "fc10", net.classes)

    return graph, 32, 10, 1e-5, 0.997


# name: the graph, the image size and classes of the original, and batch norm's epsilon and momentum (Keras's).
NETWORKS = {f"resnet{depth}{suffix}": imagenet(blocks, suffix == "v2")
            for depth, blocks in ((50, (3, 4, 6, 3)), (101, (3, 4, 23, 3)), (152, (3, 8, 36, 3)))
            for suffix in ("", "v2")}
NETWORKS |= {f"resnet{6 * n + 2}{suffix}": cifar(n, suffix == "v2")
             for n in (3, 5, 7, 9, 18) for suffix in ("", "v2")}

# (name, classes): all parameters with the moving statistics, as Keras's count_params() has them.
COUNTS = {
    ("resnet50", 1000): 25636712, ("resnet101", 1000): 44707176, ("resnet152", 1000): 60419944,
    ("resnet50v2", 1000): 25613800, ("resnet101v2", 1000): 44675560, ("resnet152v2", 1000): 60380648,
    ("resnet50v2", 10): 23585290,
    ("resnet20", 10): 274362, ("resnet32", 10): 469690, ("resnet44", 10): 665018, ("resnet56", 10): 860346,
    ("resnet110", 10): 1739322,
    ("resnet20v2", 10): 273658, ("resnet32v2", 10): 468986, ("resnet44v2", 10): 664314, ("resnet56v2", 10): 859642,
    ("resnet110v2", 10): 1738618,
}


def check_counts():
    for (name, classes), expected in COUNTS.items():
        found = sum(w.tensor.numel() for w in Net(name, classes).weights())
        print(f"{name:<12} {classes:>5} classes: {found:>11,} parameters")
        if found != expected:
            sys.exit(f"{name} should have {expected:,}")


def check_keras(name, size, batch):
    """One training step and one inference in both, in float64, from the same weights."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    keras.src.backend.common.dtypes.BIT64_TO_BIT32_DTYPE.pop("float64", None)  # some ops go back to float32 by this
    theirs = getattr(keras.applications, name.replace("resnet", "ResNet").replace("v2", "V2"))(
        weights=None, classes=10, input_shape=(size, size, 3), classifier_activation=None)
    ours = Net(name, 10).double()
    torch.manual_seed(1)
    paths = {w.path: w for w in theirs.weights if "seed" not in w.path}
    if set(paths) != {w.name for w in ours.weights()}:
        sys.exit(f"{name}: the names differ: {set(paths) ^ {w.name for w in ours.weights()}}")
    for w in ours.weights():
        scale = {"kernel": math.sqrt(2 * w.tensor.shape[0] / w.tensor.numel()), "bias": 0.1, "beta": 0.1}
        value = torch.randn(tuple(paths[w.name].shape), dtype=torch.float64) * scale.get(w.name.split("/")[1], 0.2)
        value = value.abs() + 0.5 if "variance" in w.name else value + 1 if "gamma" in w.name else value
        paths[w.name].assign(value)
        w.set(value)
    x, labels = torch.randn(batch, size, size, 3, dtype=torch.float64), torch.arange(batch) % 10
    nchw = x.permute(0, 3, 1, 2)

    worst = {}
    distance = lambda a, b: ((a - b).norm() / b.norm()).item()
    ours.eval()
    worst["inference"] = distance(ours(nchw), theirs(x, training=False))
    ours.train()
    logits, expected = ours(nchw), theirs(x, training=True)
    worst["training"] = distance(logits, expected)
    F.cross_entropy(logits, labels).backward()
    F.cross_entropy(expected, labels).backward()
    worst["gradient"] = worst["moving statistics"] = 0
    for w in ours.weights():
        if w.trainable and not w.tensor.grad.norm() < 1e-12:  # a bias in front of a batch norm: rounding only
            worst["gradient"] = max(worst["gradient"], distance(w.keras(w.tensor.grad), paths[w.name].value.grad))
        if not w.trainable:
            worst["moving statistics"] = max(worst["moving statistics"], distance(w.tensor, paths[w.name].value))
    print(f"{name:<12} against Keras {keras.__version__}: " + ", ".join(f"{k} {v:.1e}" for k, v in worst.items()))
    if max(worst.values()) > 1e-7:
        sys.exit(f"{name} is not Keras's")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--keras", action="store_true", help="compare with Keras Applications as well")
    args = parser.parse_args()
    check_counts()
    if args.keras:
        for name in NETWORKS:
            if NETWORKS[name][1] == 224:
                check_keras(name, 64, 4)


if __name__ == "__main__":
    main()
