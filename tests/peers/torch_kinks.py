#!/usr/bin/env python3
"""Whether a float32 engine can be held to a fixture's numbers: how near a Relu comes to its kink.

Needs torch, onnx and numpy. Trains the fixture as its goldens were made, in float64, and prints for each step the
smallest value that a Relu reads. For the smallest of all it prints how far PyTorch in float32 is off there, with the
rows of the batch in several orders (which changes nothing but rounding), and what the parameters after the last step
are when only that element's sign is turned in float64.

Example: torch_kinks.py ../shared/fixtures/torch-ts__resnet18_d2l__training-opset17
"""
import argparse
import json
import pathlib
import sys

import numpy as np
import onnx
import torch

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("fixture", type=pathlib.Path)
p.add_argument("--orders", type=int, default=6)
a = p.parse_args()
sys.path.insert(0, str(a.fixture.parent / "make"))
import onnx_ref_train as reference  # noqa: E402

spec = json.loads((a.fixture / "case.json").read_text())
model = reference.RefModel(str(a.fixture / "model.onnx"))
relus = [node for node in model.graph.node if node.op_type == "Relu"]


def tensor(name):
    proto = onnx.TensorProto()
    proto.ParseFromString((a.fixture / name).read_bytes())
    return onnx.numpy_helper.to_array(proto)


def train(dtype, x, y):
    """The training, and what every Relu reads: by step, then by node."""
    read, forward = [], reference.RefModel.forward

    def recorded(self, *args, **named):
        scope, run = forward(self, *args, **named)
        read.append([scope[node.input[0]].detach().double().clone() for node in relus])
        return scope, run

    reference.RefModel.forward = recorded
    o = spec["expected"]["optimizer"]
    result = reference.train(model, {spec["input"]: x}, y, spec["expected"]["trainable"], spec["logits"], spec["loss"],
                             len(spec["expected"]["loss_step"]), o["lr"], o["momentum"], o["weight_decay"],
                             o["nesterov"], dtype)
    reference.RefModel.forward = forward
    return result, read


def worst(result):
    return max(float((result["values"][n].double() - v).abs().max() / v.abs().max()) for n, v in true["values"].items()
               if n not in spec["expected"]["vanishing_gradient"])


def turned(element):
    """Relu with the sign of one element turned."""
    class Turned(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.open = x > 0
            ctx.open[element] = ~ctx.open[element]
            return torch.where(ctx.open, x.abs(), torch.zeros_like(x))

        @staticmethod
        def backward(ctx, dy):
            return dy * ctx.open

    return Turned.apply


x, y = tensor("input_0.pb"), tensor("labels.pb")
true, read = train(torch.float64, x, y)
for step, values in enumerate(read):
    smallest = torch.topk(torch.cat([v.abs().flatten() for v in values]), 3, largest=False).values.tolist()
    print(f"step {step + 1}: smallest of {sum(v.numel() for v in values)}:", *(f"{v:.3g}" for v in smallest))
_, step, relu = min((float(v.abs().min()), s, r) for s, values in enumerate(read) for r, v in enumerate(values))
want = read[step][relu]
at = tuple(int(i) for i in np.unravel_index(int(want.abs().argmin()), want.shape))
print(f"{relus[relu].name} reads {want[at]:.9g} at {list(at)} in step {step + 1}; up to {want.abs().max():.3g}")

for order in range(a.orders):
    rows = np.random.default_rng(order).permutation(len(x)) if order else np.arange(len(x))
    result, got = train(torch.float32, x[rows], y[rows])
    off = got[step][relu][np.argsort(rows)] - want
    sign = "another sign" if (want + off)[at] * want[at] <= 0 else "the same sign"
    print(f"float32, order {order}: off by {off[at]:.3g} there, rms {off.square().mean().sqrt():.3g}, at most "
          f"{off.abs().max():.3g}: {sign}; parameters {worst(result):.3g} off")

calls, plain = 0, reference.OPS["Relu"]


def relu_once_turned(ctx, v):
    global calls
    calls += 1
    return turned(at)(v) if calls == step * len(relus) + relu + 1 else plain(ctx, v)


reference.OPS["Relu"] = relu_once_turned
result, _ = train(torch.float64, x, y)
print(f"float64 with that sign turned: parameters {worst(result):.3g} off, losses", *result["losses"])
