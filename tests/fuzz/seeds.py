#!/usr/bin/env python3
"""Gathers candidates for the corpora of the fuzz targets: the shared cases and fixtures, the golden graphs of the passes,
and files made here. tools/fuzz.sh --seeds keeps those of them that reach code which no smaller one reaches.

Usage: seeds.py FOLDER [SARDONYX]. Writes FOLDER/CORPUS/NAME.seed; the name says what the candidate is. SARDONYX is the
program; with it a short run adds a manifest, states and a log.
"""

import gzip
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("SARDONYX_SHARED", ROOT.parent / "shared"))
LARGEST_MODEL = 4_000
LARGEST_FILE = 8_000


class Seeds:
    def __init__(self, folder: Path):
        self.folder = folder
        self.known = set()

    # A content that is there already keeps its first name.
    def add(self, corpus: str, name: str, content: bytes, largest: int = LARGEST_FILE):
        key = (corpus, hashlib.sha1(content).digest())
        if 0 < len(content) <= largest and key not in self.known:
            self.known.add(key)
            place = self.folder / corpus / f"{name}.seed"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def add_models(seeds: Seeds):
    for model in sorted(SHARED.glob("*/*/model.onnx")):
        seeds.add("model", model.parent.name, model.read_bytes(), LARGEST_MODEL)


def add_texts(seeds: Seeds):
    for golden in sorted(ROOT.glob("tests/passes/**/*.txt")):
        for part, text in zip(("before", "after"), golden.read_text().split("\n-----\n")):
            seeds.add("text", f"{golden.parent.name}.{golden.stem}.{part}", text.encode(), 3000)


def add_data(seeds: Seeds):
    for case in sorted(path for path in SHARED.glob("cases/*") if path.is_dir()):
        group = case.name.split("-")[0]
        for file in sorted(case.iterdir()):
            name = f"{case.name}.{file.name}"
            if group == "NPY":
                if file.suffix in (".npy", ".npz"):
                    seeds.add(file.suffix[1:], name, file.read_bytes())
            elif group in ("IDX", "CIFAR") and file.suffix not in (".json", ".pb", ".onnx"):
                seeds.add(group.lower(), name, file.read_bytes())
    for classes, label in ((10, b"\3"), (100, b"\3\x21")):
        seeds.add("cifar", f"record_of_cifar{classes}", label + bytes(range(256)) * 12)
    for code, size in {8: 1, 9: 1, 11: 2, 12: 4, 13: 4, 14: 8}.items():
        idx = bytes([0, 0, code, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6 * size))
        for form, content in (("plain", idx), ("behind_a_letter", b"Z" + idx), ("gzip", gzip.compress(idx, mtime=0))):
            seeds.add("idx", f"type_{code}_{form}", content)


def npy(dtype: str, shape: tuple, data: bytes, order: str = "False", version: int = 1) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    width = "<H" if version == 1 else "<I"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(width, len(header)) + header.encode() + data


def add_arrays(seeds: Seeds):
    arrays = {
        "float32": npy("<f4", (2, 3), bytes(24)),
        "int32_big_endian_fortran_v2": npy(">i4", (6,), bytes(range(24)), "True", 2),
        "uint8": npy("|u1", (4, 6), bytes(24)),
    }
    for name, content in arrays.items():
        seeds.add("npy", name, content)
    for form, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, content in zip("xyz", arrays.values()):
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content, method)
        seeds.add("npz", f"three_arrays_{form}", file.getvalue())


def png(width: int, height: int, depth: int, colour: int, interlaced: int, palette: bytes = b"") -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = b"\1" + bytes(range((width * channels * depth + 7) // 8))
    rows = row * (height * (2 if interlaced else 1))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
        + (chunk(b"PLTE", palette) if palette else b"")
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def add_pictures(seeds: Seeds):
    for depth, colour in ((8, 0), (16, 0), (1, 0), (8, 2), (16, 2), (8, 4), (8, 6)):
        for interlaced in (0, 1):
            name = f"png_{depth}_bits_colour_{colour}{'_interlaced' * interlaced}"
            seeds.add("picture", name, png(4, 3, depth, colour, interlaced))
    seeds.add("picture", "png_palette", png(4, 3, 8, 3, 0, bytes(range(48))))


def add_checkpoints(seeds: Seeds, program: str):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run = [program, "train", "model.onnx", "--data", "synthetic:64", "--batch", "16", "--steps", "6"]
        run += ["--checkpoint", "points", "--checkpoint-every", "3", "--log", "log", "--optimizer", "adam"]
        subprocess.run([program, "model", "lenet", "-o", "model.onnx"], cwd=folder, check=True)
        subprocess.run(run, cwd=folder, check=True)
        seeds.add("log", "of_six_steps", (folder / "log").read_bytes())
        for manifest in folder.glob("points/*/manifest.json"):
            content = manifest.read_bytes()
            seeds.add("manifest", manifest.parent.name, content)
            seeds.add("manifest", f"{manifest.parent.name}_cut_in_front_of_the_sum", content[: content.rindex(b',\n  "crc32"')])


def add_states(seeds: Seeds):
    for dtype, width in (("F32", 4), ("F64", 8), ("BF16", 2), ("I64", 8), ("BOOL", 1)):
        header = {
            "__metadata__": {"format": "pt"},
            "w": {"dtype": dtype, "shape": [2, 2], "data_offsets": [0, 4 * width]},
            "empty": {"dtype": dtype, "shape": [0], "data_offsets": [4 * width, 4 * width]},
        }
        text = json.dumps(header).encode()
        seeds.add("safetensors", dtype.lower(), struct.pack("<Q", len(text)) + text + bytes(4 * width))
    lines = [{"step": n, "loss": 2.5, "lr": 0.1, "grad_norm": 1.5} for n in (1, 2, 3)]
    lines.insert(2, {"epoch": 1, "step": 2, "train_loss": 2.4, "test_accuracy": 0.5, "best": True})
    seeds.add("log", "of_three_steps", "".join(json.dumps(line) + "\n" for line in lines + [{"done": True}]).encode())
    cache = {"sardonyx_tuning": 1, "machines": {"a machine": {"a request": {"a kernel": 0.25, "another": 1e-3}}}}
    seeds.add("tuning", "one_request", json.dumps(cache).encode())


def main() -> None:
    seeds = Seeds(Path(sys.argv[1]))
    add_models(seeds)
    add_texts(seeds)
    add_data(seeds)
    add_arrays(seeds)
    add_pictures(seeds)
    add_states(seeds)
    if len(sys.argv) > 2:
        add_checkpoints(seeds, str(Path(sys.argv[2]).resolve()))


if __name__ == "__main__":
    main()
