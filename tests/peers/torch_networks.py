#!/usr/bin/env python3
"""Training steps of two transformers, a depthwise network and an LSTM: Sardonyx against PyTorch.

    torch_networks.py --sardonyx build/release/tools/sardonyx --pairs 1

Needs torch and onnx. Each network is exported, then trained by both in turn on one thread. What counts is
the processor time of a step, which other programs disturb less than the clock: for Sardonyx that of the
timed repetitions alone (a long run less a short one), for PyTorch the median of seven steps behind two.
Prints one JSON line per pair; `ratio` above 1 says that Sardonyx takes less.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        batch, tokens, dim = x.shape
        head = dim // self.heads
        q, k, v = (part.reshape(batch, tokens, self.heads, head).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = torch.softmax(q @ k.transpose(-2, -1) * head ** -0.5, -1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, dim))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Vit(nn.Module):
    """64 tokens of 4x4 cells, 192 wide, 4 blocks of 3 heads."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 4, 4)
        self.position = nn.Parameter(torch.randn(1, 64, 192) * 0.02)
        self.blocks = nn.Sequential(*[Block(192, 3) for _ in range(4)])
        self.norm, self.classes = nn.LayerNorm(192), nn.Linear(192, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.position
        return self.classes(self.norm(self.blocks(x)).mean(1))


class Text(nn.Module):
    """128 tokens out of 2000, 256 wide, 4 blocks of 4 heads."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(2000, 256)
        self.position = nn.Parameter(torch.randn(1, 128, 256) * 0.02)
        self.blocks, self.classes = nn.Sequential(*[Block(256, 4) for _ in range(4)]), nn.Linear(256, 4)

    def forward(self, x):
        return self.classes(self.blocks(self.embedding(x) + self.position).mean(1))


def conv(inputs, outputs, size, stride=1, groups=1):
    return [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs)]


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride, widen):
        super().__init__()
        hidden = inputs * widen
        self.adds = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(*conv(inputs, hidden, 1), nn.ReLU6(),
                                    *conv(hidden, hidden, 3, stride, hidden), nn.ReLU6(),
                                    *conv(hidden, outputs, 1))

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


class Mobile(nn.Module):
    """Eleven blocks like those of MobileNetV2, with a stem of stride 1 for 32x32."""

    def __init__(self):
        super().__init__()
        layers, channels = [*conv(3, 32, 3), nn.ReLU6()], 32
        for widen, outputs, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 3, 2),
                                              (6, 96, 2, 1)]:
            for i in range(count):
                layers.append(Inverted(channels, outputs, stride if i == 0 else 1, widen))
                channels = outputs
        self.features, self.classes = nn.Sequential(*layers), nn.Linear(96, 10)

    def forward(self, x):
        return self.classes(self.features(x).mean((2, 3)))


class Lstm(nn.Module):
    """64 steps of 64 values, 128 wide."""

    def __init__(self):
        super().__init__()
        self.lstm, self.classes = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 5)

    def forward(self, x):
        return self.classes(self.lstm(x)[0][:, -1])


# name: the network, a batch, classes, opset, steps per repetition
NETWORKS = {
    "vit": (Vit, lambda: torch.randn(32, 3, 32, 32), 10, 20, 2),
    "text": (Text, lambda: torch.randint(0, 2000, (16, 128)), 4, 20, 2),
    "mobile": (Mobile, lambda: torch.randn(32, 3, 32, 32), 10, 20, 2),
    "lstm": (Lstm, lambda: torch.randn(32, 64, 64), 5, 17, 20),
}


def processor_ms(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    return 1e3 * (usage.ru_utime + usage.ru_stime)


def our_step(sardonyx, file, batch, steps):
    def run(repetitions):
        return processor_ms([sardonyx, "bench", file, "--batch", str(batch), "--threads", "1", "--steps",
                             str(steps), "--repetitions", str(repetitions), "--json"])
    return (run(4) - run(1)) / (3 * steps)


def torch_step(model, x, classes, channels_last):
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    labels, times = torch.randint(0, classes, (len(x),)), []
    for _ in range(9):
        start = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sardonyx", required=True)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            network, sample, classes, opset, steps = NETWORKS[name]
            x, file = sample(), os.path.join(folder, f"{name}.onnx")
            torch.onnx.export(network().train(), (x,), file, dynamo=False, opset_version=opset,
                              training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
            for _ in range(options.pairs):
                ours = our_step(options.sardonyx, file, len(x), steps)
                theirs = torch_step(network().train(), x, classes, name == "mobile")
                print(json.dumps({"network": name, "batch": len(x), "sardonyx_ms": round(ours, 1),
                                  "torch_ms": round(theirs, 1), "ratio": round(theirs / ours, 2)}), flush=True)


if __name__ == "__main__":
    main()
