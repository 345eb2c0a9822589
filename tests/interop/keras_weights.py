#!/usr/bin/env python3
"""Keras writes weights, Lockstep reads and saves them, and Keras reads those: every weight is the same bits, in each of the three kinds of files.

    python3 -m venv build/interop && build/interop/bin/pip install tensorflow-cpu
    build/interop/bin/python tests/interop/keras_weights.py build/release/lockstep mobilenet densenet121

By hand: needs packages and minutes, so no test runs it. Lockstep trains a step at a rate of 0 in which all but the classifier is frozen, so that
moving statistics stay as well. Last run, on 2026-11-25, with Keras 3.15.1: all that it knows, of densenet121 the first pair of files alone.
"""
import itertools
import os
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras  # noqa: E402
import numpy as np  # noqa: E402

NETWORKS = {"mobilenet": "MobileNet", "mobilenetv2": "MobileNetV2", "densenet121": "DenseNet121", "resnet50v2": "ResNet50V2",
            "efficientnetb0": "EfficientNetB0", "vgg16": "VGG16"}
SIDE = 64
program, names = sys.argv[1], sys.argv[2:] or NETWORKS


def make(name):
    keras.utils.clear_session()  # automatic names begin anew
    return getattr(keras.applications, NETWORKS[name])(weights=None, input_shape=(SIDE, SIDE, 3), classes=10)


def through_lockstep(name, body, theirs, ours):
    subprocess.run([program, "train", name, "--data", f"synthetic:{SIDE}x{SIDE}x3,10,16,0", "--normalize", "none" if "efficient" in name else "unit",
                    "--batch-size", "16", "--replicas", "1", "--epochs", "1", "--optimizer", "sgd", "--lr", "0", "--freeze", body, "--no-evaluate",
                    "--verbose", "0", "--weights", theirs, "--save", ours], check=True)


with tempfile.TemporaryDirectory() as here:
    draws = np.random.default_rng(1)
    for name in names:
        model = make(name)
        model.set_weights([draws.normal(0, 0.05, w.shape).astype("f4") + (1 if "variance" in w.path else 0) for w in model.weights])
        wanted = model.get_weights()
        body = ",".join(f"{layer.name}/*" for layer in [layer for layer in model.layers if layer.weights][:-1])
        for kind in "h5", "weights.h5", "keras":
            theirs = f"{here}/{name}.{kind}"
            (model.save_weights if kind == "weights.h5" else model.save)(theirs)
        for kind, back in itertools.product(("h5", "weights.h5", "keras"), ("h5", "weights.h5")):
            ours = f"{here}/back.{back}"
            through_lockstep(name, body, f"{here}/{name}.{kind}", ours)
            again = make(name)
            again.load_weights(ours, **({"by_name": True} if back == "h5" else {}))
            for want, got, w in zip(wanted, again.get_weights(), again.weights):
                assert np.array_equal(want, got), (name, kind, back, w.path)
            print(f"{name}: {kind} of Keras, {back} of Lockstep: all {len(wanted)} weights are the same", flush=True)
