#!/usr/bin/env python3
"""Prints where Keras 3 keeps the weights of each layer of a network with branches, in a .weights.h5: the table of places_of_branches in
tests/test_weights_keras.c. Wants keras (3.15), h5py, and a backend (KERAS_BACKEND=jax)."""
import os
import tempfile

import h5py
import keras
from keras import layers


def conv(name, **more):
    return layers.Conv2D(2, 1, name=name, **more)


x = layers.Input((6, 6, 2), name="x")
a = conv("a")(x)
b = conv("b")(x)
c = conv("c")(b)
d = conv("d", activation="relu")(b)
e = layers.Add(name="e")([a, d])
f = layers.Concatenate(name="f")([c, e])
g = layers.ReLU(name="g")(f)
h = conv("h")(f)
i = layers.Concatenate(name="i")([g, h])
y = layers.Dense(3)(layers.GlobalAveragePooling2D()(i))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "branches.weights.h5")
    keras.Model(x, y).save_weights(path)
    with h5py.File(path) as file:
        for place, layer in file["layers"].items():
            print(layer["vars"].attrs["name"], place)
