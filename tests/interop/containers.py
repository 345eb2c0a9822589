#!/usr/bin/env python3
"""TensorFlow and webdataset read what `lockstep convert` writes, and Lockstep trains on what they write to the same weights.

    python3 -m venv build/interop && build/interop/bin/pip install tensorflow-cpu webdataset
    build/interop/bin/python tests/interop/containers.py build/release/lockstep images:DIR

By hand: needs packages and minutes, so no test runs it. Last run, on 2026-11-25, with TensorFlow 2.21.0 and webdataset 1.0.2.
"""
import hashlib
import os
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402
import webdataset as wds  # noqa: E402

program, images = sys.argv[1:]
here = tempfile.mkdtemp()


def path(name):
    return os.path.join(here, name)


def lockstep(*words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def digest(data):
    text = lockstep("train", "mnist-linear", "--data", data, "--image-size", "24", "--augment", "resized-crop,flip",
                    "--device", "ref", "--epochs", "1", "--batch-size", "16", "--no-evaluate", "--verbose", "2")
    return [line.split()[-1] for line in text.splitlines() if line.startswith("Weights digest")][0]


def feature(kind, values):
    lists = {"bytes": tf.train.BytesList, "int64": tf.train.Int64List, "float": tf.train.FloatList}
    return tf.train.Feature(**{kind + "_list": lists[kind](value=values)})


lockstep("convert", images, f"tfrecord:{path('ours.tfrecord')},test={path('test.tfrecord')}")
lockstep("convert", images, f"tar:{path('ours.tar')},test={path('test.tar')}")
wanted = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}
records = [tf.io.parse_single_example(r, wanted) for r in tf.data.TFRecordDataset(path("ours.tfrecord"))]
samples = [(r["image/encoded"].numpy(), int(r["image/class/label"])) for r in records]
theirs = [(s.get("jpg") or s.get("png"), int(s["cls"])) for s in wds.WebDataset(path("ours.tar"), shardshuffle=False)]
assert [(hashlib.md5(a).digest(), b) for a, b in samples] == [(hashlib.md5(a).digest(), b) for a, b in theirs]

with tf.io.TFRecordWriter(path("tf.tfrecord")) as records, wds.TarWriter(path("wds.tar")) as tar:
    for i, (image, label) in enumerate(samples):
        features = {"image/encoded": feature("bytes", [image]), "image/class/label": feature("int64", [label + 1]),
                    "image/class/text": feature("bytes", [b"a word"]), "image/object/bbox/xmin": feature("float", [0.5, 1])}
        records.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        tar.write({"__key__": f"sample{i:06d}", "jpg": image, "cls": label, "json": {"more": 1}})

expected = digest(images)
for data in (f"tfrecord:{path('ours.tfrecord')}", f"tar:{path('ours.tar')}", f"tfrecord:{path('tf.tfrecord')},first-class=1",
             f"tar:{path('wds.tar')}"):
    assert digest(data) == expected, data
# Several labels: rows of 0 and 1, whole and floating, and the numbers of those that are there, beside a table of the same.
rows = [[int(i % 2 == 0), int(i % 3 == 0), int(i % 5 == 0)] for i in range(len(samples))]
with open(path("rows.csv"), "w") as table, tf.io.TFRecordWriter(path("rows.tfrecord")) as records:
    table.write("file,a,b,c\n")
    for i, ((image, _), row) in enumerate(zip(samples, rows)):
        with open(path(f"{i}.jpg"), "wb") as file:
            file.write(image)
        table.write(f"{i}.jpg,{row[0]},{row[1]},{row[2]}\n")
        features = {"image/encoded": feature("bytes", [image]), "rows": feature("int64", row), "floats": feature("float", row),
                    "numbers": feature("int64", [k for k in range(3) if row[k]])}
        records.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
several = digest(f"csv:{path('rows.csv')},columns=all")
for options in ("labels=rows", "labels=floats", "labels=numbers,label-count=3"):
    assert digest(f"tfrecord:{path('rows.tfrecord')},{options}") == several, options
print(f"{len(samples)} samples, four times the same weights of several labels: {several}")
print(f"{len(samples)} samples, five times the same weights: {expected}")
