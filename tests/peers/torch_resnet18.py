#!/usr/bin/env python3
"""Trains ResNet-18 (small stem) with PyTorch from the weights of an ONNX file, for comparison with `sardonyx train`.

Needs torch, onnx and numpy. Batches are taken in the order of the file and cut as Sardonyx cuts them: over --replicas,
then into --accumulate micro-batches each. BatchNorm sees one micro-batch at a time on both sides; running statistics of
replicas are averaged after every step. Prints one JSON line per step ({"step", "loss"}) and per epoch ({"epoch",
"test_accuracy"}).

Example: torch_resnet18.py --model resnet18.onnx --data f5k.npz --epochs 2 --batch 256 --lr 0.1 --dtype f64
"""
import argparse
import json

import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn as nn
import torch.nn.functional as F

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--model", required=True)
p.add_argument("--data", required=True, help="npz with x_train, y_train, x_test, y_test; bytes are divided by 255")
p.add_argument("--epochs", type=int, default=2)
p.add_argument("--steps", type=int, default=0, help="stop after so many")
p.add_argument("--batch", type=int, default=256, help="of all replicas together")
p.add_argument("--replicas", type=int, default=1)
p.add_argument("--accumulate", type=int, default=1)
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("--dtype", choices=["f32", "f64"], default="f32")
p.add_argument("--threads", type=int, default=2)
a = p.parse_args()
torch.set_num_threads(a.threads)
dtype = torch.float64 if a.dtype == "f64" else torch.float32
torch.set_default_dtype(dtype)


def batch_norm(channels):
    """With epsilon as an ONNX file holds it, in float32: seen in the 13th digit of a float64 loss."""
    return nn.BatchNorm2d(channels, eps=float(np.float32(1e-5)))


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1), batch_norm(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1), batch_norm(o)
        self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride)) if stride != 1 or i != o else None

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, channels = nn.Conv2d(1, 64, 3, 1, 1), batch_norm(64), 64
        for k, o in enumerate((64, 128, 256, 512)):
            setattr(self, f"layer{k + 1}", nn.Sequential(Block(channels, o, 2 if k else 1), Block(o, o, 1)))
            channels = o
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        for k in range(4):
            x = getattr(self, f"layer{k + 1}")(x)
        return self.fc(x.mean((2, 3)))


def even(count, parts):
    """As runtime/data/batch_cut.h: larger parts first."""
    return [count // parts + (i < count % parts) for i in range(parts) if count // parts + (i < count % parts)]


def load(data, part):
    images = torch.tensor(data[f"x_{part}"]).float() / 255
    return images.to(dtype), torch.tensor(data[f"y_{part}"])


net = Net()
weights = {i.name: torch.tensor(onnx.numpy_helper.to_array(i)).to(dtype) for i in onnx.load(a.model).graph.initializer}
missing = net.load_state_dict(weights, strict=False)
assert not missing.unexpected_keys and all("num_batches" in key for key in missing.missing_keys), missing
statistics = [b for name, b in net.named_buffers() if "running" in name]
data = np.load(a.data)
x, y = load(data, "train")
x_test, y_test = load(data, "test")
optimizer = torch.optim.SGD(net.parameters(), lr=a.lr)
step = 0
for epoch in range(a.epochs):
    net.train()
    for begin in range(0, len(x), a.batch):
        xs, ys = x[begin:begin + a.batch], y[begin:begin + a.batch]
        optimizer.zero_grad()
        before = [s.clone() for s in statistics]
        after = [torch.zeros_like(s) for s in statistics]
        loss_sum, row, shares = 0.0, 0, even(len(xs), a.replicas)
        for share in shares:
            for s, b in zip(statistics, before):
                s.copy_(b)
            for size in even(share, a.accumulate):
                loss = F.cross_entropy(net(xs[row:row + size]), ys[row:row + size], reduction="sum")
                (loss / len(xs)).backward()
                loss_sum, row = loss_sum + loss.item(), row + size
            for total, s in zip(after, statistics):
                total += s / len(shares)
        for s, total in zip(statistics, after):
            s.copy_(total)
        optimizer.step()
        step += 1
        print(json.dumps({"step": step, "loss": loss_sum / len(xs)}), flush=True)
        if step == a.steps:
            raise SystemExit
    net.eval()
    with torch.no_grad():
        scores = torch.cat([net(x_test[i:i + 250]) for i in range(0, len(x_test), 250)])
    accuracy = (scores.argmax(1) == y_test).double().mean().item()
    test_loss = F.cross_entropy(scores, y_test).item()
    print(json.dumps({"epoch": epoch + 1, "test_accuracy": accuracy, "test_loss": test_loss}), flush=True)
