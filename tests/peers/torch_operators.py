#!/usr/bin/env python3
"""Trains one small network per operator with PyTorch and with Sardonyx, both in float64, and compares what was trained.

Each network is x * scale + shift (both trained, so that the gradient of the operator's data is seen), the operator, and a Linear layer; it is
exported by torch.onnx.export, trained for two steps of SGD with momentum from the same weights, and read back from the saved file. The
difference of a parameter is that of its change, relative to the largest change in it.

Needs torch, onnx and numpy. Example: torch_operators.py --sardonyx build/release/tools/sardonyx --filter conv
"""

import argparse
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
ROWS, STEPS, LR, MOMENTUM = 4, 2, 0.05, 0.9


class Network(nn.Module):
    """`operator` between a trained scale of its data and a Linear layer. shape: of one sample."""

    def __init__(self, operator, shape):
        super().__init__()
        self.scale = nn.Parameter(0.7 + 0.6 * torch.rand(shape))
        self.shift = nn.Parameter(0.3 * torch.randn(shape))
        self.operator = operator
        with torch.no_grad():
            features = self.before(torch.randn(ROWS, *shape)).shape[1]
        self.linear = nn.Linear(features, 3)

    def before(self, x):
        return self.operator(x * self.scale + self.shift).flatten(1)

    def forward(self, x):
        return self.linear(self.before(x))


class Call(nn.Module):
    """A function as a module, with the parameters that it takes behind x."""

    def __init__(self, function, *shapes):
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList([nn.Parameter(0.5 * torch.randn(s)) for s in shapes])

    def forward(self, x):
        return self.function(x, *self.weights)


class First(nn.Module):
    """What a recurrent layer gives for each step, and its last states."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        y, state = self.layer(x)
        states = state if isinstance(state, tuple) else (state,)
        return torch.cat([y.flatten(1)] + [s.transpose(0, 1).flatten(1) for s in states], 1)


CASES = {}  # name: (function that makes the operator, shape of a sample)


def case(name, make, *shape):
    CASES[name] = (make, shape)


def call(name, function, *shape, weights=()):
    case(name, lambda: Call(function, *weights), *shape)


def convolutions():
    for d, size in ((1, (13,)), (2, (7, 9)), (3, (5, 4, 6))):
        conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[d]
        back = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}[d]
        for groups, inside, outside in ((1, 3, 5), (2, 4, 6), (4, 4, 8), (4, 4, 4)):
            for stride, dilation, padding, kernel in (
                (1, 1, 0, 1),
                (1, 1, 1, 3),
                (2, 1, 1, 3),
                (1, 2, 2, 3),
                (3, 1, 0, 2),
            ):
                name = f"{d}d_g{groups}_o{outside}_k{kernel}_s{stride}_d{dilation}_p{padding}"
                case(
                    f"conv{name}",
                    lambda a=(conv, inside, outside, kernel, stride, padding, dilation, groups): a[0](
                        a[1], a[2], a[3], stride=a[4], padding=a[5], dilation=a[6], groups=a[7]
                    ),
                    inside,
                    *size,
                )
                extra = 1 if stride > 1 else 0
                case(
                    f"conv_transpose{name}",
                    lambda a=(back, inside, outside, kernel, stride, padding, dilation, groups, extra): a[0](
                        a[1], a[2], a[3], stride=a[4], padding=a[5], output_padding=a[8], groups=a[7], dilation=a[6]
                    ),
                    inside,
                    *size,
                )


def pools():
    for d, size in ((1, (13,)), (2, (7, 9)), (3, (5, 6, 7))):
        most = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}[d]
        mean = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}[d]
        for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (3, 3, 0), (2, 3, 1)):
            for ceil in (False, True):
                name = f"{d}d_k{kernel}_s{stride}_p{padding}{'_ceil' if ceil else ''}"
                for dilation in (1, 2):
                    if (kernel - 1) * dilation + 1 > 5:
                        continue
                    case(
                        f"max_pool{name}_d{dilation}",
                        lambda a=(most, kernel, stride, padding, dilation, ceil): a[0](
                            a[1], a[2], a[3], a[4], ceil_mode=a[5]
                        ),
                        3,
                        *size,
                    )
                for counted in (False, True):
                    case(
                        f"avg_pool{name}{'_pad' if counted else ''}",
                        lambda a=(mean, kernel, stride, padding, ceil, counted): a[0](
                            a[1], a[2], a[3], ceil_mode=a[4], count_include_pad=a[5]
                        ),
                        3,
                        *size,
                    )
        case(
            f"adaptive_avg{d}d",
            lambda a=d: {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}[a](1),
            3,
            *size,
        )
    call("lp_pool2d", lambda x: F.lp_pool2d(x.abs() + 0.1, 3, 2), 3, 8, 8)


def resizes():
    for mode, d in (
        ("nearest", 1),
        ("nearest", 2),
        ("nearest", 3),
        ("linear", 1),
        ("bilinear", 2),
        ("trilinear", 3),
        ("bicubic", 2),
    ):
        size = {1: (7,), 2: (5, 6), 3: (3, 4, 5)}[d]
        for to in ({1: (13,), 2: (9, 11), 3: (5, 6, 7)}[d], {1: (4,), 2: (3, 4), 3: (2, 3, 3)}[d], size):
            for corners in ((None,) if mode == "nearest" else (False, True)):
                call(
                    f"resize_{mode}{d}d_{to[0]}{'_corners' if corners else ''}",
                    lambda x, a=(to, mode, corners): F.interpolate(x, size=a[0], mode=a[1], align_corners=a[2]),
                    2,
                    *size,
                )
    for scale in (0.5, 1.7, 2.0):
        for mode in ("nearest", "bilinear", "bicubic"):
            call(
                f"resize_{mode}_by{scale}",
                lambda x, a=(scale, mode): F.interpolate(
                    x, scale_factor=a[0], mode=a[1], recompute_scale_factor=False
                ),
                2,
                5,
                6,
            )
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                call(
                    f"grid_sample_{mode}_{padding}{corners:d}",
                    lambda x, g, a=(mode, padding, corners): F.grid_sample(
                        x, (g * 1.3).expand(x.shape[0], -1, -1, -1), a[0], a[1], a[2]
                    ),
                    2,
                    5,
                    6,
                    weights=((1, 4, 3, 2),),
                )


def recurrent():
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for layers in (1, 2):
            for both in (False, True):
                for bias in (False, True):
                    name = f"{kind.__name__.lower()}_l{layers}{'_both' if both else ''}{'' if bias else '_nobias'}"
                    case(
                        name,
                        lambda a=(kind, layers, both, bias): First(
                            a[0](5, 4, num_layers=a[1], bidirectional=a[2], bias=a[3], batch_first=True)
                        ),
                        6,
                        5,
                    )
    case("rnn_relu", lambda: First(nn.RNN(5, 4, nonlinearity="relu", batch_first=True)), 6, 5)


def elementwise():
    names = (
        "relu leaky_relu elu selu celu sigmoid tanh softplus softsign gelu hardsigmoid hardswish hardtanh relu6 silu mish logsigmoid "
        "softshrink hardshrink tanhshrink threshold"
    ).split()
    for name in names:
        function = getattr(F, name)
        more = {"threshold": (0.1, -0.3), "hardtanh": (-0.5, 0.6)}.get(name, ())
        call(name, lambda x, a=(function, more): a[0](x, *a[1]), 3, 5)
    call("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), 3, 5)
    case("prelu", lambda: nn.PReLU(3), 3, 5)
    for name in "exp sin cos tan atan sinh cosh asinh erf abs neg square".split():
        call(name, lambda x, a=name: getattr(torch, a)(x * 0.5), 3, 5)
    for name in "sqrt log reciprocal rsqrt log1p".split():
        call(name, lambda x, a=name: getattr(torch, a)(x.abs() + 0.5), 3, 5)
    for name in "asin acos atanh".split():
        call(name, lambda x, a=name: getattr(torch, a)(x * 0.2).clamp(-2, 2), 3, 5)
    call("acosh", lambda x: torch.acosh(x.abs() + 1.5), 3, 5)
    call("pow", lambda x, w: (x.abs() + 0.5) ** w, 3, 5, weights=((5,),))
    call("pow3", lambda x: x**3, 3, 5)
    call("div", lambda x, w: x / (w.abs() + 1), 3, 5, weights=((3, 1),))
    call("fmod", lambda x: torch.fmod(x * 3, 1.0), 3, 5)
    call("remainder", lambda x: torch.remainder(x * 3, 1.0), 3, 5)
    call("max2", lambda x, w: torch.maximum(x, w), 3, 5, weights=((5,),))
    call("min2", lambda x, w: torch.minimum(x, w), 3, 5, weights=((3, 1),))
    call("where", lambda x, w: torch.where(x > 0.2, x, w), 3, 5, weights=((1, 5),))
    call("where_nan", lambda x: torch.where(x > 0, x.clamp(min=0.1).log(), x), 3, 5)
    call("clamp", lambda x: x.clamp(-0.4, 0.5), 3, 5)
    call("softmax1", lambda x: F.softmax(x, 1), 3, 5)
    call("softmax2", lambda x: F.softmax(x, 2), 3, 5)
    call("log_softmax1", lambda x: F.log_softmax(x, 1), 3, 5)
    call("glu", lambda x: F.glu(x, 1), 4, 5)


def norms():
    case("batch_norm1", lambda: nn.BatchNorm1d(5, eps=float(np.float32(1e-5))), 5)
    case("batch_norm2", lambda: nn.BatchNorm2d(3, eps=float(np.float32(1e-5))), 3, 4, 5)
    case("batch_norm3", lambda: nn.BatchNorm3d(3, eps=float(np.float32(1e-5))), 3, 2, 4, 3)
    for d, size in ((1, (7,)), (2, (4, 5)), (3, (2, 3, 4))):
        kind = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}[d]
        case(f"instance_norm{d}", lambda a=kind: a(3, affine=True, eps=float(np.float32(1e-5))), 3, *size)
    for groups in (1, 2, 6):
        case(f"group_norm{groups}", lambda a=groups: nn.GroupNorm(a, 6, eps=float(np.float32(1e-5))), 6, 4, 3)
    case("layer_norm1", lambda: nn.LayerNorm(5, eps=float(np.float32(1e-5))), 3, 5)
    case("layer_norm2", lambda: nn.LayerNorm((3, 5), eps=float(np.float32(1e-5))), 3, 5)
    case("layer_norm_plain", lambda: nn.LayerNorm(5, elementwise_affine=False, eps=float(np.float32(1e-5))), 3, 5)
    case("rms_norm", lambda: nn.RMSNorm(5, eps=float(np.float32(1e-5))), 3, 5)
    for size in (1, 2, 3, 5):
        case(f"lrn{size}", lambda a=size: nn.LocalResponseNorm(a, alpha=0.5), 6, 3, 4)
    for p in (1, 2):
        call(f"normalize{p}", lambda x, a=p: F.normalize(x, p=a, dim=1), 3, 5)


def reductions():
    for axes in ((1,), (2,), (1, 2), (-1,)):
        for keep in (False, True):
            name = f"{'_'.join(map(str, axes))}{'_keep' if keep else ''}"
            call(f"mean{name}", lambda x, a=(axes, keep): x.mean(a[0], keepdim=a[1]), 3, 5, 2)
            call(f"sum{name}", lambda x, a=(axes, keep): x.sum(a[0], keepdim=a[1]), 3, 5, 2)
            call(f"logsumexp{name}", lambda x, a=(axes, keep): torch.logsumexp(x, a[0], keepdim=a[1]), 3, 5, 2)
            call(f"amax{name}", lambda x, a=(axes, keep): torch.amax(x, a[0], keepdim=a[1]), 3, 5, 2)
            call(f"amin{name}", lambda x, a=(axes, keep): torch.amin(x, a[0], keepdim=a[1]), 3, 5, 2)
            call(
                f"norm2{name}", lambda x, a=(axes, keep): torch.linalg.vector_norm(x, 2, a[0], keepdim=a[1]), 3, 5, 2
            )
            call(
                f"norm1{name}", lambda x, a=(axes, keep): torch.linalg.vector_norm(x, 1, a[0], keepdim=a[1]), 3, 5, 2
            )
    call("prod", lambda x: x.prod(1), 3, 5)
    call("prod_zero", lambda x: x.masked_fill(torch.arange(15).reshape(3, 5) % 4 == 1, 0.0).prod(1), 3, 5)
    call("var", lambda x: x.var(1), 3, 5)
    call("std", lambda x: x.std((1, 2), unbiased=False, keepdim=True), 3, 5, 2)
    call("max_values", lambda x: x.max(1)[0], 3, 5)
    call("topk", lambda x: x.topk(3, 2)[0], 3, 5)
    call("topk_smallest", lambda x: x.topk(2, 1, largest=False)[0], 3, 5)
    call("sort", lambda x: x.sort(2)[0], 3, 5)
    for dim in (1, 2):
        call(f"cumsum{dim}", lambda x, a=dim: x.cumsum(a), 3, 5)


def movement():
    for mode in ("constant", "reflect", "replicate", "circular"):
        for pads in ((1, 2), (2, 0), (1, 1, 2, 1)):
            call(
                f"pad_{mode}_{'_'.join(map(str, pads))}",
                lambda x, a=(pads, mode): F.pad(x, a[0], mode=a[1]),
                *((2, 4, 5) if len(pads) == 4 else (2, 5)),
            )
    call("pad_negative", lambda x: F.pad(x, (-1, 2, 1, -1)), 2, 4, 5)
    call("permute", lambda x: x.permute(0, 3, 1, 2), 2, 4, 5)
    call("slice", lambda x: x[:, 1:, ::2], 3, 5)
    call("slice_negative", lambda x: x[:, -2:, :-1], 3, 5)
    call("flip", lambda x: x.flip(2), 3, 5)
    call("roll", lambda x: x.roll(2, 2), 3, 5)
    call("repeat", lambda x: x.repeat(1, 2, 3), 3, 5)
    call("expand", lambda x: x.unsqueeze(1).expand(-1, 3, -1, -1), 3, 5)
    call("chunk", lambda x: torch.cat(x.chunk(3, 2)[::-1], 1), 3, 6)
    call("split", lambda x: torch.cat([p.sum(2) for p in x.split([1, 2, 3], 2)], 1), 3, 6)
    call("stack", lambda x: torch.stack([x, x * x], 2), 3, 5)
    call("index_select", lambda x: x.index_select(2, torch.tensor([4, 0, 0, 2])), 3, 5)
    call("index", lambda x: x[:, [0, 2, 2], [1, 1, 4]], 3, 5)
    call(
        "embedding",
        lambda x, w: F.embedding((x.detach() > 0.5).long().flatten(1), w).flatten(1) + x.sum((1, 2)).unsqueeze(1),
        3,
        5,
        weights=((3, 4),),
    )
    index = torch.tensor([[[0, 0, 3], [1, 4, 4], [2, 2, 2]]]).repeat(ROWS, 1, 1)
    for reduce in ("sum", "prod", "amax", "amin"):
        call(
            f"scatter_{reduce}",
            lambda x, w, a=reduce: x.scatter_reduce(
                2, index.expand(x.shape[0], -1, -1), w.expand(x.shape[0], -1, -1), a
            ),
            3,
            5,
            weights=((1, 3, 3),),
        )
    call(
        "scatter_add",
        lambda x, w: x.scatter_add(2, index.expand(x.shape[0], -1, -1), w.expand(x.shape[0], -1, -1)),
        3,
        5,
        weights=((1, 3, 3),),
    )
    call("masked_fill", lambda x: x.masked_fill(torch.arange(5) % 2 == 0, -1.0), 3, 5)
    call("tril", lambda x: x.tril(-1), 4, 4)
    call("triu", lambda x: x.triu(1), 3, 5)
    call("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), 8, 3, 2)
    call("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), 2, 4, 6)
    call("unfold", lambda x: F.unfold(x, 3, padding=1, stride=2), 2, 5, 6)
    call("fold", lambda x: F.fold(x, (4, 5), 2), 8, 12)


def linear():
    for equation, shape, weight in (
        ("nij,jk->nik", (3, 5), (5, 4)),
        ("nij,ij->n", (3, 5), (3, 5)),
        ("nij,kj->nki", (3, 5), (4, 5)),
        ("nii->ni", (4, 4), None),
        ("nij->nji", (3, 5), None),
        ("nij->n", (3, 5), None),
        ("n...j,jk->n...k", (2, 3, 5), (5, 4)),
        ("nij,nkj->nik", (3, 5), "x"),
        ("bij,bjk,bkl->bil", (4, 4), "xx"),
    ):
        name = "einsum_" + equation.replace(",", "_").replace("->", "_to_").replace("...", "e")
        if weight is None:
            call(name, lambda x, a=equation: torch.einsum(a, x).reshape(x.shape[0], -1), *shape)
        elif isinstance(weight, str):
            call(name, lambda x, a=(equation, len(weight)): torch.einsum(a[0], x, *([x * 0.5] * a[1])), *shape)
        else:
            call(
                name,
                lambda x, w, a=equation: torch.einsum(a, x, w).reshape(x.shape[0], -1),
                *shape,
                weights=(weight,),
            )
    call("matmul_vector", lambda x, w: x @ w, 3, 5, weights=((5,),))
    call("matmul_left", lambda x, w: w @ x, 3, 5, weights=((4, 3),))
    call("matmul_batch", lambda x, w: x @ w, 2, 3, 5, weights=((2, 5, 4),))
    call("matmul_broadcast", lambda x, w: x.unsqueeze(1) @ w, 3, 5, weights=((4, 5, 2),))
    call("bmm_self", lambda x: x @ x.transpose(1, 2), 3, 5)
    call(
        "baddbmm",
        lambda x, w: torch.baddbmm(w.expand(x.shape[0], -1, -1), x, x.transpose(1, 2)),
        3,
        5,
        weights=((1, 3, 3),),
    )
    call("det", lambda x: torch.det(x).unsqueeze(1), 3, 3)
    for causal in (False, True):
        call(
            f"attention{'_causal' if causal else ''}",
            lambda x, w, a=causal: F.scaled_dot_product_attention(x, x * w, x + w, is_causal=a),
            2,
            6,
            4,
            weights=((4,),),
        )
    case("multihead", lambda: Heads(), 6, 8)
    case(
        "encoder",
        lambda: nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, batch_first=True, layer_norm_eps=float(np.float32(1e-5))
        ),
        6,
        8,
    )


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.heads(x, x, x, need_weights=False)[0]


def write_data(path, shape):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((ROWS, *shape)).astype(np.float32)
    y = rng.standard_normal((ROWS, 3)).astype(np.float32)
    np.savez(path, x_train=x, y_train=y)
    return torch.from_numpy(x).double(), torch.from_numpy(y).double()


def train_torch(network, x, y):
    network.double()
    optimizer = torch.optim.SGD(network.parameters(), lr=LR, momentum=MOMENTUM)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.mse_loss(network(x), y).backward()
        optimizer.step()


def compare(before, trained, after):
    """The largest difference of a parameter's change, and its name. before, after: files; trained: name -> float64 array."""
    worst, where = 0.0, ""
    first = {t.name: onnx.numpy_helper.to_array(t) for t in before.graph.initializer}
    last = {t.name: onnx.numpy_helper.to_array(t) for t in after.graph.initializer}
    seen = 0
    for name, value in trained.items():
        if name not in last:
            continue
        seen += 1
        moved, expected = last[name].astype(np.float64) - first[name], value - first[name]
        floor = 4e-7 * np.abs(value).max() + 1e-9  # the file holds float32
        difference = (np.abs(moved - expected).max() - floor) / (np.abs(expected).max() + 1e-6)
        if not difference <= worst:
            worst, where = difference, name
    return worst, where, seen


def run(name, sardonyx, folder, opset):
    make, shape = CASES[name]
    torch.manual_seed(0)
    network = Network(make(), shape)
    network.train()
    model, data, saved = (os.path.join(folder, f) for f in ("model.onnx", "data.npz", "saved.onnx"))
    try:
        torch.onnx.export(
            network,
            (torch.randn(ROWS, *shape),),
            model,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            opset_version=opset,
            dynamo=False,
            keep_initializers_as_inputs=False,
        )
    except Exception as error:  # the exporter's business
        return "NOT EXPORTED", str(error).split("\n")[0][:120]
    x, y = write_data(data, shape)
    command = [
        sardonyx,
        "train",
        model,
        "--data",
        f"npz:{data}",
        "--batch",
        str(ROWS),
        "--steps",
        str(STEPS),
        "--lr",
        str(LR),
        "--momentum",
        str(MOMENTUM),
        "--loss",
        "mse",
        "--dtype",
        "f64",
        "--no-shuffle",
        "--eval-every",
        "0",
        "--save",
        saved,
        "--overwrite",
        "--respect-training-mode",
        "--train",
        "scale",
        "--train",
        "shift",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        return f"EXIT {done.returncode}", (done.stderr.strip() or done.stdout.strip()).replace("\n", " | ")[:300]
    train_torch(network, x, y)
    trained = {n: p.detach().numpy() for n, p in network.named_parameters()}
    worst, where, seen = compare(onnx.load(model), trained, onnx.load(saved))
    verdict = "ok" if worst <= 1e-4 and seen >= 2 else "DIFFERS"
    return verdict, f"{max(worst, 0):.1e} {where} ({seen} of {len(trained)} compared)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sardonyx", required=True)
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--all", action="store_true", help="print those that are well, too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for family in (convolutions, pools, resizes, recurrent, elementwise, norms, reductions, movement, linear):
        family()
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            if arguments.filter not in name:
                continue
            try:
                verdict, text = run(name, arguments.sardonyx, folder, arguments.opset)
            except Exception as error:
                verdict, text = "SCRIPT", repr(error)[:200]
            counts[verdict.split(" ")[0]] = counts.get(verdict.split(" ")[0], 0) + 1
            if arguments.all or verdict != "ok":
                print(f"{name:45s} {verdict:8s} {text}", flush=True)
    print(", ".join(f"{n} {v}" for v, n in counts.items()))
    return 1 if set(counts) - {"ok", "NOT"} else 0


if __name__ == "__main__":
    sys.exit(main())
