#!/usr/bin/env python3
"""Trains LeNet with PyTorch from the weights of an ONNX file, for comparison with `sardonyx train`.

Needs torch, onnx and numpy. Prints one JSON line per step ({"step", "loss"}) or per epoch ({"epoch",
"test_accuracy"}). With --no-shuffle the batches are those of `sardonyx train --no-shuffle`.

Example: torch_lenet.py --model lenet.onnx --steps 200 --batch 256 --lr 0.2 --dtype f64 --no-shuffle
"""
import argparse
import gzip
import json

import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn.functional as F

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("--model", required=True)
p.add_argument("--data-dir", default="/usr/share/datasets/fashion-mnist")
p.add_argument("--steps", type=int, default=0)
p.add_argument("--epochs", type=int, default=0)
p.add_argument("--batch", type=int, default=256)
p.add_argument("--lr", type=float, default=0.2)
p.add_argument("--dtype", choices=["f32", "f64"], default="f32")
p.add_argument("--seed", type=int, default=0)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--no-shuffle", action="store_true")
a = p.parse_args()
torch.set_num_threads(a.threads)
dtype = torch.float64 if a.dtype == "f64" else torch.float32


def idx(name):
    data = gzip.open(f"{a.data_dir}/{name}.gz").read()
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def split(prefix):
    x = torch.from_numpy(idx(f"{prefix}-images-idx3-ubyte").astype("float32") / np.float32(255))
    return x[:, None].to(dtype), torch.from_numpy(idx(f"{prefix}-labels-idx1-ubyte").astype("int64"))


def forward(w, x):
    x = F.avg_pool2d(F.relu(F.conv2d(x, w["conv1.weight"], w["conv1.bias"])), 2)
    x = F.avg_pool2d(F.relu(F.conv2d(x, w["conv2.weight"], w["conv2.bias"])), 2)
    x = F.relu(F.linear(x.flatten(1), w["fc1.weight"], w["fc1.bias"]))
    return F.linear(x, w["fc2.weight"], w["fc2.bias"])


model = onnx.load(a.model)
w = {t.name: torch.tensor(onnx.numpy_helper.to_array(t)).to(dtype).requires_grad_()
     for t in model.graph.initializer if t.name.startswith(("conv", "fc"))}
x, y = split("train")
test_x, test_y = split("t10k")
optimizer = torch.optim.SGD(w.values(), lr=a.lr)
generator = torch.Generator().manual_seed(a.seed)
step = 0
for epoch in range(a.epochs or 10**9):
    order = torch.arange(len(y)) if a.no_shuffle else torch.randperm(len(y), generator=generator)
    for begin in range(0, len(y), a.batch):
        rows = order[begin:begin + a.batch]
        loss = F.cross_entropy(forward(w, x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if a.steps:
            print(json.dumps({"step": step, "loss": loss.item()}), flush=True)
            if step == a.steps:
                raise SystemExit
    with torch.no_grad():
        right = sum((forward(w, test_x[i:i + 1000]).argmax(1) == test_y[i:i + 1000]).sum().item()
                    for i in range(0, len(test_y), 1000))
    print(json.dumps({"epoch": epoch + 1, "test_accuracy": right / len(test_y)}), flush=True)
