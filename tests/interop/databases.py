#!/usr/bin/env python3
"""The Python packages lmdb, h5py and numpy write what Lockstep trains on to the same weights, and lmdb, h5py and numpy read what `lockstep convert` writes.

    python3 -m venv build/interop && build/interop/bin/pip install lmdb h5py numpy pillow
    build/interop/bin/python tests/interop/databases.py build/release/lockstep images:DIR

By hand: needs packages, so no test runs it. Last run, on 2026-11-25, with lmdb 3.0.0, h5py 3.14.0, numpy 2.4.6.
"""
import io
import os
import subprocess
import sys
import tempfile

import h5py
import lmdb
import numpy as np
from PIL import Image

program, images = sys.argv[1:]
here = tempfile.mkdtemp()


def path(name):
    return os.path.join(here, name)


def lockstep(*words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def digest(data, *more):
    text = lockstep("train", "mnist-linear", "--data", data, "--image-size", "24", "--device", "ref", "--epochs", "1", "--batch-size", "16",
                    "--no-evaluate", "--verbose", "2", *more)
    return [line.split()[-1] for line in text.splitlines() if line.startswith("Weights digest")][0]


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def parse(message):
    """Caffe's Datum as a dict of its fields."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        value = number()
        if tag & 7 == 2:
            value, at = message[at:at + value], at + value
        fields[tag >> 3] = value
    return fields


def datum(image, label, pixels=None):
    """One made here: encoded, or pixels (height, width, 3), blue first."""
    if pixels is None:
        return b"\x22" + varint(len(image)) + image + b"\x28" + varint(label) + b"\x38\x01"
    planes = pixels[:, :, ::-1].transpose(2, 0, 1).tobytes()
    return b"\x08\x03\x10" + varint(pixels.shape[0]) + b"\x18" + varint(pixels.shape[1]) + b"\x22" + varint(len(planes)) + planes + \
        b"\x28" + varint(label)


def write(name, values):
    with lmdb.open(path(name), map_size=1 << 30) as env, env.begin(write=True) as txn:
        for i, value in enumerate(values):
            txn.put(f"{i:08d}".encode(), value)
    return f"lmdb:{path(name)}"


lockstep("convert", images, f"lmdb:{path('ours')},test={path('ours-test')}")
with lmdb.open(path("ours"), readonly=True, lock=False) as env, env.begin() as txn:
    samples = [parse(bytes(value)) for _, value in txn.cursor()]
assert all(s[7] == 1 for s in samples)
augment = ["--augment", "resized-crop,flip"]
expected = digest(images, *augment)
assert digest(f"lmdb:{path('ours')}", *augment) == expected
assert digest(write("theirs", [datum(s[4], s.get(5, 0)) for s in samples]), *augment) == expected

# Pixels of one size: in a database, in HDF5 files of both layouts, and in NumPy's.
labels = np.array([s.get(5, 0) for s in samples])
pixels = np.stack([np.asarray(Image.open(io.BytesIO(s[4])).convert("RGB").resize((40, 40))) for s in samples])
np.savez(path("pixels.npz"), x_train=pixels, y_train=labels)
np.save(path("x.npy"), pixels)
np.save(path("y.npy"), labels)
same = digest(f"numpy:{path('pixels.npz')}")
assert digest(f"numpy:{path('x.npy')},labels={path('y.npy')}") == same
assert digest(write("pixels", [datum(None, int(label), image) for image, label in zip(pixels, labels)])) == same
for name, options in (("plain", {}), ("packed", {"compression": "gzip", "chunks": (8, 40, 40, 3)})):
    with h5py.File(path(name), "w") as file:
        file.create_dataset("x_train", data=pixels, **options)
        file["y_train"] = labels
    assert digest(f"hdf5:{path(name)}") == same, name
with h5py.File(path("caffe.h5"), "w") as file:
    file["data"] = pixels.transpose(0, 3, 1, 2)
    file["label"] = labels.astype(np.float32)
assert digest(f"hdf5:{path('caffe.h5')}") == same

# Several labels at once: rows of 0 and 1.
rows = np.stack([np.arange(len(labels)) % k == 0 for k in (2, 3, 5)], 1)
np.savez(path("rows.npz"), train_images=pixels, train_labels=rows)
several = digest(f"numpy:{path('rows.npz')}")
for name, kind in (("bool", np.uint8), ("whole", np.int64), ("floating", np.float32)):
    with h5py.File(path(name), "w") as file:
        file["x_train"], file["y_train"] = pixels, rows.astype(kind)
    assert digest(f"hdf5:{path(name)}") == several, name

# What convert writes of arrays is read by h5py and numpy, and is what it was made of.
flat = {"x_train": pixels, "y_train": labels, "x_test": pixels[:5], "y_test": labels[:5]}
np.savez(path("both.npz"), **flat)
for source in (f"numpy:{path('both.npz')}", f"hdf5:{path('keras.h5')}"):
    lockstep("convert", source, f"hdf5:{path('keras.h5') if source[0] == 'n' else path('again.h5')}")
    lockstep("convert", source, f"hdf5:{path('one.h5')},layout=caffe,test={path('two.h5')}")
    lockstep("convert", source, f"numpy:{path('ours.npz')}", "--workers", "3")
    for name in ("keras.h5", "again.h5") if source[0] == "h" else ("keras.h5",):
        with h5py.File(path(name)) as file:
            assert sorted(file) == sorted(flat) and all(np.array_equal(file[k][()], v) for k, v in flat.items()), name
    with h5py.File(path("one.h5")) as one, h5py.File(path("two.h5")) as two:
        for file, x, y in ((one, pixels, labels), (two, pixels[:5], labels[:5])):
            assert np.array_equal(file["data"][()].transpose(0, 2, 3, 1), x) and np.array_equal(file["label"][()], y)
    with np.load(path("ours.npz")) as file:
        assert sorted(file.files) == sorted(flat) and all(np.array_equal(file[k], v) for k, v in flat.items())
lockstep("convert", images, f"numpy:{path('square.npz')}", "--image-size", "32")
with np.load(path("square.npz")) as file:
    assert file["x_train"].shape == (len(samples), 32, 32, 3) and np.array_equal(file["y_train"], labels)
print(f"{len(samples)} samples, four times the same weights of several labels: {several}")
print(f"{len(samples)} samples, three times {expected}, and six times {same}; arrays are read by h5py and numpy")
