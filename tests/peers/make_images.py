#!/usr/bin/env python3
"""Writes Fashion-MNIST as a small colour data set: in CIFAR-10's binary format, or as a folder of JPEG files.

CIFAR-10 itself may not be at hand; this has its format, its size of image and ten classes, and can be learnt, so the
recipe and the loader can be tried. Each image is enlarged, moved and tinted at random (seeded): it is not CIFAR-10, and
accuracies on it say nothing about CIFAR-10.

Needs numpy and Pillow. Examples:
  make_images.py --cifar cifar --count 5000           cifar/data_batch_1.bin ... data_batch_5.bin, test_batch.bin
  make_images.py --folder photos --count 640 --size 256    photos/train/0/0.jpg ...
"""
import argparse
import gzip
import pathlib

import numpy as np
from PIL import Image

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--source", default="/usr/share/datasets/fashion-mnist", help="folder with the IDX files (.gz)")
p.add_argument("--cifar", metavar="DIR")
p.add_argument("--folder", metavar="DIR")
p.add_argument("--count", type=int, default=5000, help="training images; a fifth as many to test")
p.add_argument("--size", type=int, default=256, help="of the JPEG files; CIFAR's are 32")
p.add_argument("--seed", type=int, default=0)
a = p.parse_args()
random = np.random.default_rng(a.seed)


def read(part, count):
    def idx(name):
        data = gzip.open(f"{a.source}/{part}-{name}-ubyte.gz").read()
        rank = data[3]
        return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(np.frombuffer(data, ">i4", rank, 4))
    return idx("images-idx3")[:count], idx("labels-idx1")[:count]


def coloured(gray, size):
    """[size, size, 3]: the garment in a random colour before a random, noisy background."""
    inner = int(size * random.uniform(0.75, 1.0))
    left, top = random.integers(0, size - inner + 1, 2)
    mask = np.zeros((size, size), np.float32)
    mask[top:top + inner, left:left + inner] = np.asarray(Image.fromarray(gray).resize((inner, inner))) / 255.0
    front, back = random.uniform(80, 255, 3), random.uniform(0, 120, 3)
    image = mask[..., None] * front + (1 - mask[..., None]) * back + random.normal(0, 8, (size, size, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


def write_cifar(folder, name, images, labels):
    records = [bytes([label]) + coloured(gray, 32).transpose(2, 0, 1).tobytes() for gray, label in zip(images, labels)]
    (folder / name).write_bytes(b"".join(records))


for part, source, count in (("train", "train", a.count), ("test", "t10k", a.count // 5)):
    images, labels = read(source, count)
    if a.cifar:
        folder = pathlib.Path(a.cifar)
        folder.mkdir(parents=True, exist_ok=True)
        pieces = 5 if part == "train" else 1
        for i, (x, y) in enumerate(zip(np.array_split(images, pieces), np.array_split(labels, pieces))):
            write_cifar(folder, f"data_batch_{i + 1}.bin" if part == "train" else "test_batch.bin", x, y)
    if a.folder:
        for i, (gray, label) in enumerate(zip(images, labels)):
            folder = pathlib.Path(a.folder) / part / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(coloured(gray, a.size)).save(folder / f"{i}.jpg", quality=90)
