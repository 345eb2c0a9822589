#!/usr/bin/env python3
"""Makes prepare.json: what Pillow, torchvision, PyTorch and OpenCV make of images, for tests/test_prepare_golden.c to compare with.

Run it in a virtual environment with numpy, pillow, torch, torchvision and opencv-python-headless:

    python tests/golden/make_prepare.py            # writes tests/golden/prepare.json

Of Pillow's results, which are bytes, there is the CRC-32 of all of them, because ours are the same; of the others there are values at some places,
and the sum of all. The images are not stored: byte i of one (H, W, C) is (i * 2654435761 mod 2^32) >> 13 & 255, on both sides.
"""
import argparse
import json
import pathlib
import re
import zlib

import cv2
import numpy as np
import PIL
import torch
import torch.nn.functional as F
import torchvision
from PIL import Image
from torchvision.transforms import functional as T
from torchvision.transforms import InterpolationMode

SAMPLED = 24
# height, width, channels, and the height and width wanted
RESIZED = [(32, 32, 3, 128, 128), (28, 28, 1, 100, 61), (50, 37, 3, 24, 24), (64, 96, 3, 20, 17), (9, 300, 3, 9, 41),
           (33, 20, 1, 20, 20), (5, 4, 3, 1, 64), (48, 48, 3, 16, 16)]
# height, width, channels, the shorter side, and what is cut out of the middle
CENTRED = [(50, 37, 3, 32, 28), (37, 50, 3, 33, 28), (40, 90, 1, 20, 20), (30, 31, 3, 64, 49)]
# the order of brightness (0), contrast (1), saturation (2), hue (3), and their factors; hue's is added
COLOURS = [((0, 1, 2, 3), (1.3, 1, 1, 0)), ((0, 1, 2, 3), (1, 0.4, 1, 0)), ((0, 1, 2, 3), (1, 1, 1.7, 0)),
           ((0, 1, 2, 3), (1, 1, 1, 0.31)), ((0, 1, 2, 3), (1, 1, 1, -0.42)), ((3, 1, 0, 2), (0.7, 1.35, 0.2, 0.08)),
           ((2, 0, 3, 1), (1.4, 0.61, 1.4, -0.1))]
DEGREES = [0, 15, -33.5, 90, 178]


def pattern(height, width, channels):
    i = np.arange(height * width * channels, dtype=np.uint64)
    return (i * np.uint64(2654435761) % np.uint64(2**32) >> np.uint64(13) & np.uint64(255)).astype(np.uint8).reshape(
        height, width, channels)


def as_pillow(pixels):
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def as_tensor(pixels):
    return torch.from_numpy(pixels).permute(2, 0, 1)


def told(values, **more):
    """Values (H, W, C) at some places, and their sum."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    indices = [int(k * (flat.size - 1) // (SAMPLED - 1)) for k in range(SAMPLED)]
    return {**more, "indices": indices, "values": [float(f"{flat[n]:.9g}") for n in indices], "sum": float(flat.sum())}


def resized(height, width, channels, to_height, to_width):
    pixels = pattern(height, width, channels)
    shape = {"from": [height, width, channels], "to": [to_height, to_width]}
    for rule, name in (("pillow-bilinear", Image.BILINEAR), ("pillow-bicubic", Image.BICUBIC)):
        theirs = np.asarray(as_pillow(pixels).resize((to_width, to_height), name))
        yield {"rule": rule, **shape, "crc32": zlib.crc32(theirs.tobytes())}
    theirs = F.interpolate(as_tensor(pixels).double()[None], size=(to_height, to_width), mode="bicubic",
                           align_corners=False, antialias=False)[0].permute(1, 2, 0).numpy()
    yield told(theirs, rule="bicubic", **shape)
    if to_height <= height and to_width <= width:
        theirs = cv2.resize(pixels.astype(np.float64), (to_width, to_height), interpolation=cv2.INTER_AREA)
        yield told(theirs, rule="area", **shape)


def centred(height, width, channels, side, cut):
    for rule, mode in (("pillow-bilinear", InterpolationMode.BILINEAR), ("pillow-bicubic", InterpolationMode.BICUBIC)):
        image = as_pillow(pattern(height, width, channels))
        theirs = np.asarray(T.center_crop(T.resize(image, side, mode), [cut, cut]))
        yield {"rule": rule, "from": [height, width, channels], "resize": side, "to": [cut, cut],
               "crc32": zlib.crc32(theirs.tobytes())}


def coloured(order, factors):
    pixels = pattern(13, 11, 3)
    x = as_tensor(pixels).double() / 255
    steps = (T.adjust_brightness, T.adjust_contrast, T.adjust_saturation, T.adjust_hue)
    for which in order:
        if factors[which] != (0 if which == 3 else 1):
            x = steps[which](x, factors[which])
    return told(255 * x.permute(1, 2, 0).numpy(), order=list(order), factors=list(factors))


def rotated(degrees, height, width, channels):
    x = as_tensor(pattern(height, width, channels)).double()
    theirs = T.rotate(x, degrees, InterpolationMode.BILINEAR)
    return told(theirs.permute(1, 2, 0).numpy(), degrees=degrees, shape=[height, width, channels])


def main():
    default = pathlib.Path(__file__).with_name("prepare.json")
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--out", default=default, help="the file to write (default: beside this script)")
    out = arguments.parse_args().out
    golden = {
        "made_by": f"tests/golden/make_prepare.py with Pillow {PIL.__version__}, torch {torch.__version__}, "
                   f"torchvision {torchvision.__version__} and OpenCV {cv2.__version__}",
        "resize": [c for r in RESIZED for c in resized(*r)],
        "centred": [c for r in CENTRED for c in centred(*r)],
        "colours": [coloured(*c) for c in COLOURS],
        "rotate": [rotated(d, *shape) for d in DEGREES for shape in ((17, 17, 3), (10, 23, 1))],
    }
    text = json.dumps(golden, indent=1)
    # One line for each list of numbers.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
    pathlib.Path(out).write_text(text + "\n")
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
