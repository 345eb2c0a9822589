#!/usr/bin/env python3
"""Makes layers.json: what Keras computes for layers by themselves, for tests/test_golden_layers.c to compare with.

Run it in a virtual environment with keras and jax (this was Keras 3.15.1 on jax 0.10.2):

    KERAS_BACKEND=jax python tests/golden/make_layers.py > tests/golden/layers.json

In float64. Element i of input k of a case is draw(k, case, i), of parameter k draw(16 + k, case, i), and the objective whose gradients
these are is the sum of the output times draw(32, case, i); case counts from 0 in the order of CASES. Whole numbers are the draws' words
modulo how many there are.
"""
import json
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import keras
from keras import layers

keras.config.set_floatx("float64")

MASK = np.uint64(0xFFFFFFFF)


def words(stream, variant, count):
    """Philox4x32-10 under the key of tests/golden_check.h: the first `count` words of a stream."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    c = [blocks & MASK, np.full_like(blocks, stream), np.full_like(blocks, variant), np.zeros_like(blocks)]
    k0, k1 = 0x73746570, 0x4C6F636B
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & MASK, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, 1).reshape(-1)[:count]


def draw(stream, variant, shape):
    count = int(np.prod(shape))
    return (2 * ((words(stream, variant, count) >> np.uint64(8)).astype(np.float64) * 2.0**-24) - 1).reshape(shape)


class Recurrent(layers.Layer):
    """A recurrent layer, whose second input, if there is one, is a mask. What belongs to a step lies at its place, backwards too."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def build(self, shapes):
        self.inner.build(shapes[0] if isinstance(shapes, list) else shapes)

    def call(self, x):
        x, mask = x if isinstance(x, list) else (x, None)
        y = self.inner(x, mask=None if mask is None else mask != 0)
        return y[:, ::-1] if self.inner.go_backwards and self.inner.return_sequences else y


class Attention(layers.Layer):
    """Query, key and value behind each other in the channels, as ls_attention takes them."""

    def __init__(self, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal

    def call(self, x):
        x, mask = x if isinstance(x, list) else (x, None)
        n, t, c = x.shape
        q, k, v = (p.reshape(n, t, self.heads, -1) for p in np.split(np.arange(c), 3) for p in [x[:, :, p]])
        allowed = None if mask is None else (mask != 0)[:, None, None, :]
        y = jax.nn.dot_product_attention(q, k, v, mask=allowed, is_causal=self.causal)
        return y.reshape(n, t, c // 3)


class MaskedMean(layers.GlobalAveragePooling1D):
    def call(self, x):
        return super().call(x[0], mask=x[1] != 0)


BATCH = 2
# name, layer, shapes of samples; numbers: below what.
CASES = [
    ("sigmoid", layers.Activation("sigmoid"), [(3, 5)], 0),
    ("tanh", layers.Activation("tanh"), [(3, 5)], 0),
    ("softmax", layers.Activation("softmax"), [(3, 5)], 0),
    ("gelu", layers.Activation("gelu"), [(3, 5)], 0),
    ("silu", layers.Activation("silu"), [(3, 5)], 0),
    ("concat", layers.Concatenate(), [(3, 2), (3, 1), (3, 4)], 0),
    ("concat axis 1", layers.Concatenate(axis=1), [(3, 2), (1, 2)], 0),
    ("multiply", layers.Multiply(), [(3, 2), (3, 2)], 0),
    ("conv2d groups", layers.Conv2D(6, (3, 2), groups=2, strides=(2, 1)), [(5, 6, 4)], 0),
    ("conv2d dilation", layers.Conv2D(3, (3, 2), dilation_rate=(2, 3), padding="same"), [(6, 7, 2)], 0),
    ("depthwise_conv2d", layers.DepthwiseConv2D((3, 2), depth_multiplier=2), [(5, 4, 3)], 0),
    ("depthwise_conv2d same", layers.DepthwiseConv2D(3, strides=2, padding="same", use_bias=False), [(6, 5, 3)], 0),
    ("conv2d_transpose", layers.Conv2DTranspose(3, (3, 4), strides=(2, 3)), [(3, 2, 2)], 0),
    ("conv2d_transpose same", layers.Conv2DTranspose(3, (4, 3), strides=(2, 2), padding="same"), [(3, 4, 2)], 0),
    ("conv2d_transpose short", layers.Conv2DTranspose(2, (1, 2), strides=(2, 3)), [(3, 2, 2)], 0),
    ("conv2d_transpose short same", layers.Conv2DTranspose(2, (2, 1), strides=(3, 2), padding="same"), [(3, 2, 2)], 0),
    ("up_sampling2d", layers.UpSampling2D((2, 3)), [(2, 3, 2)], 0),
    ("layer_norm", layers.LayerNormalization(), [(3, 5)], 0),
    ("embedding", layers.Embedding(7, 3), [(4,)], 7),
    ("global_average_pool1d", layers.GlobalAveragePooling1D(), [(4, 3)], 0),
    ("dense of sequences", layers.Dense(4), [(3, 5)], 0),
    ("reshape", layers.Reshape((3, -1, 2)), [(2, 6)], 0),
    ("separable_conv2d", layers.SeparableConv2D(4, (3, 2), depth_multiplier=2), [(5, 4, 3)], 0),
    ("separable_conv2d same", layers.SeparableConv2D(2, 3, strides=2, padding="same", use_bias=False), [(6, 5, 3)], 0),
    ("multiply by channel", layers.Multiply(), [(2, 3, 2), (1, 1, 2)], 0),
    ("rescaling", layers.Rescaling(-0.3, 2.0), [(3, 5)], 0),
    ("global_average_pool2d keepdims", layers.GlobalAveragePooling2D(keepdims=True), [(3, 2, 4)], 0),
    # The second input of two is a mask.
    ("global_average_pool1d masked", MaskedMean(), [(4, 3), (4,)], 2),
    ("lstm", Recurrent(layers.LSTM(3)), [(4, 2)], 0),
    ("lstm sequences masked", Recurrent(layers.LSTM(3, return_sequences=True)), [(5, 2), (5,)], 2),
    ("lstm backwards", Recurrent(layers.LSTM(2, return_sequences=True, go_backwards=True)), [(4, 3)], 0),
    ("gru", Recurrent(layers.GRU(3)), [(4, 2)], 0),
    ("gru sequences masked", Recurrent(layers.GRU(3, return_sequences=True)), [(5, 2), (5,)], 2),
    ("gru backwards masked", Recurrent(layers.GRU(2, go_backwards=True)), [(4, 3), (4,)], 2),
    ("attention", Attention(2), [(4, 12)], 0),
    ("attention causal", Attention(1, causal=True), [(5, 9)], 0),
    ("attention masked", Attention(2), [(6, 12), (6,)], 2),
    ("conv3d", layers.Conv3D(3, (2, 3, 2), dilation_rate=(1, 1, 2)), [(3, 4, 5, 2)], 0),
    ("conv3d same", layers.Conv3D(2, (3, 2, 3), strides=(2, 1, 2), padding="same", use_bias=False), [(4, 3, 5, 2)], 0),
    ("conv3d_transpose", layers.Conv3DTranspose(2, (2, 3, 4), strides=(1, 2, 3)), [(2, 3, 2, 2)], 0),
    ("conv3d_transpose same", layers.Conv3DTranspose(2, (3, 4, 1), strides=(2, 2, 2), padding="same"), [(2, 2, 3, 2)], 0),
    ("max_pool3d same", layers.MaxPooling3D((2, 3, 2), strides=(1, 2, 2), padding="same"), [(3, 4, 3, 2)], 0),
    ("average_pool3d same", layers.AveragePooling3D((2, 3, 2), strides=(1, 2, 2), padding="same"), [(3, 4, 3, 2)], 0),
    ("group_norm", layers.GroupNormalization(2), [(3, 2, 6)], 0),
    ("group_norm of instances", layers.GroupNormalization(-1, epsilon=0.01), [(5, 3)], 0),
    ("cropping2d", layers.Cropping2D(((1, 2), (0, 1))), [(5, 4, 2)], 0),
]


def plain(array):
    return [float("%.11g" % v) for v in np.asarray(array, dtype=np.float64).reshape(-1)]


def compute(index, name, layer, shapes, below):
    shapes = [(BATCH,) + s for s in shapes]
    masked = len(shapes) > 1 and below > 0
    if masked:
        x = [draw(0, index, shapes[0]), (words(1, index, int(np.prod(shapes[1]))) % np.uint64(below)).astype(np.int32).reshape(shapes[1])]
    elif below:
        x = [(words(0, index, int(np.prod(s))) % np.uint64(below)).astype(np.int32).reshape(s) for s in shapes]
    else:
        x = [draw(k, index, s) for k, s in enumerate(shapes)]
    layer.build(shapes if len(shapes) > 1 else shapes[0])
    weights = [draw(16 + k, index, tuple(w.shape)) for k, w in enumerate(layer.trainable_variables)]

    def apply(p, inputs):
        return layer.stateless_call(p, [v.value for v in layer.non_trainable_variables], inputs if len(inputs) > 1 else inputs[0])[0]

    y = apply(weights, x)
    dy = draw(32, index, y.shape)

    def objective(p, inputs):
        return (apply(p, inputs) * dy).sum()

    dw = jax.grad(objective, 0)(weights, x) if weights else []
    if masked:
        dx = [jax.grad(lambda first: objective(weights, [first, x[1]]))(x[0])]
    else:
        dx = [] if below else jax.grad(objective, 1)(weights, x)
    return {
        "name": name,
        # Keras's tanh and its mean over images are in float32; ours keeps an epsilon in it.
        "tolerance": 1e-6 if y.dtype != np.float64 or "_norm" in name or name.endswith("keepdims") or name.startswith(("lstm", "gru", "attention")) else 1e-9,
        "shape": list(y.shape[1:]),
        "parameters": [{"name": w.name, "shape": list(w.shape)} for w in layer.trainable_variables],
        "y": plain(y),
        "dx": [plain(d) for d in dx],
        "dw": [plain(d) for d in dw],
    }


made_by = "tests/golden/make_layers.py with keras %s and jax %s" % (keras.__version__, jax.__version__)
cases = [compute(i, *case) for i, case in enumerate(CASES)]
text = ",\n".join("  " + json.dumps(c) for c in cases)
sys.stdout.write('{\n "made_by": %s,\n "cases": [\n%s\n ]\n}\n' % (json.dumps(made_by), text))
