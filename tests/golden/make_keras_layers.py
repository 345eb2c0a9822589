#!/usr/bin/env python3
"""Prints the table in tests/test_models.c: what Keras's own residual networks are made of, layer by layer.

Run it in a virtual environment with keras and one of its backends (this was Keras 3.15 on PyTorch):

    KERAS_BACKEND=torch python tests/golden/make_keras_layers.py            # the table
    KERAS_BACKEND=torch python tests/golden/make_keras_layers.py resnet50   # the text behind one line of it

The text of a network has a line for each layer in the order of model.layers, with name, class, output shape and the layers it
reads, and a line for each weight in the order of model.weights:

    conv2_block1_out Add (56, 56, 256) conv2_block1_0_conv conv2_block1_3_conv
    conv2_block1_1_conv/kernel (1, 1, 64, 64)

The table has its FNV-1a hash. Names that Keras numbers through a whole program are numbered from the model's beginning.
"""
import sys

import keras

NETWORKS = ["ResNet50", "ResNet101", "ResNet152", "ResNet50V2", "ResNet101V2", "ResNet152V2"]


def shape(dims):
    return "(" + ", ".join(str(d) for d in dims) + ")"


def names_of(model):
    """The layers' names, automatic ones as they are in a program's first model."""
    names, pools = {}, 0
    for layer in model.layers:
        names[layer.name] = layer.name
        if isinstance(layer, keras.layers.InputLayer):
            names[layer.name] = "input"
        elif layer.name.startswith("max_pooling2d"):
            names[layer.name] = "max_pooling2d" + (f"_{pools}" if pools else "")
            pools += 1
    return names


def text_of(model):
    names, lines = names_of(model), []
    for layer in model.layers:
        inputs = [t._keras_history.operation.name for node in layer._inbound_nodes for t in node.input_tensors]
        words = [names[layer.name], type(layer).__name__, shape(layer.output.shape[1:])]
        lines.append(" ".join(words + [names[i] for i in inputs]))
    lines += [f"{w.path} {shape(w.shape)}" for w in model.weights]
    return "".join(line + "\n" for line in lines)


def fnv1a(text):
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def main():
    for name in NETWORKS:
        if len(sys.argv) > 1 and name.lower() not in sys.argv[1:]:
            continue
        model = getattr(keras.applications, name)(weights=None)
        text = text_of(model)
        if len(sys.argv) > 1:
            print(text, end="")
            continue
        fixed = sum(w.numpy().size for w in model.non_trainable_weights)
        print(f'    {{"{name.lower()}", {model.count_params()}, {fixed}, {len(model.layers)}, 0x{fnv1a(text):016x}}},')


main()
