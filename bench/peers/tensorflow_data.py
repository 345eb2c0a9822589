#!/usr/bin/env python3
"""What tf.data gives from a folder of JPEG files: decoding the crop alone, resizing, mirroring, normalizing, batches in fp32. Prints JSON.

    tensorflow_data.py FOLDER [--threads 1] [--seconds 10]

As TensorFlow's own ResNet example for ImageNet reads it (models/official/vision: decode_and_crop_jpeg of a sampled box).
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import time

SETTINGS = ["fast DCT", "accurate DCT"]

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--list", action="store_true")
parser.add_argument("--setting", choices=SETTINGS, default=SETTINGS[0])
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=10)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
if args.list:
    print(json.dumps({"settings": SETTINGS}))
    raise SystemExit

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(args.threads)
tf.config.threading.set_inter_op_parallelism_threads(args.threads)
files, labels = [], []
for number, folder in enumerate(sorted(f for f in args.folder.iterdir() if f.is_dir())):
    for path in sorted(folder.glob("*.jp*g")):
        files.append(str(path))
        labels.append(number)


def prepare(path, label):
    data = tf.io.read_file(path)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(data), tf.zeros([1, 0, 4]), area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3),
        min_object_covered=0.1, max_attempts=10, use_image_if_no_bounding_boxes=True)
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3,
                                          dct_method="INTEGER_FAST" if args.setting == "fast DCT" else "INTEGER_ACCURATE")
    image = tf.image.resize(image, [args.image_size, args.image_size])
    return tf.image.random_flip_left_right(image) / 127.5 - 1.0, label


data = tf.data.Dataset.from_tensor_slices((files, labels)).shuffle(len(files)).repeat()
data = data.map(prepare, num_parallel_calls=args.threads).batch(args.batch_size, drop_remainder=True).prefetch(2)
options = tf.data.Options()
options.threading.private_threadpool_size = args.threads
options.deterministic = False
source = iter(data.with_options(options))


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


rates, images = [], 0
for _ in range(8):
    next(source)
begin, begin_cpu = time.perf_counter(), cpu_seconds()
while time.perf_counter() - begin < args.seconds or len(rates) < 3:
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < args.seconds / 10:
        n += int(next(source)[1].shape[0])
    rates.append(n / (time.perf_counter() - start))
    images += n
print(json.dumps({"tensorflow": tf.__version__, "setting": args.setting, "images_per_second": statistics.median(rates),
                  "images_per_cpu_second": images / (cpu_seconds() - begin_cpu)}))
