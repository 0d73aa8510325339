#!/usr/bin/env python3
"""Writes what PyTorch's optimizers make of 200 given gradients: the numbers of tests/runtime/optimizer_test.cc.

Lion, LAMB and LARS, which PyTorch has not, are written down here as their papers define them.

Needs torch. Two parameters a [4] and b [3]; the gradients are exact in single precision, one element never has
any, one only tiny ones. One line per run, element type and step that is kept.

Example: torch_optimizers.py > tests/runtime/torch_optimizers.jsonl       (names of runs: only these)
"""
import json

import sys

import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

STEPS, KEPT = 200, (1, 2, 200)
RUNS = {
    "sgd_decay": {"kind": "sgd", "weight_decay": 0.01},
    "sgd_dampening": {"kind": "sgd", "momentum": 0.9, "dampening": 0.25, "weight_decay": 0.01},
    "sgd_nesterov": {"kind": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "sgd_clip_norm": {"kind": "sgd", "momentum": 0.9, "clip_norm": 2.5},
    "adam": {"kind": "adam"},
    "adam_decay": {"kind": "adam", "betas": [0.8, 0.95], "eps": 1e-3, "weight_decay": 0.1},
    "adam_short_memory": {"kind": "adam", "betas": [0.3, 0.9]},
    "adam_clip_value": {"kind": "adam", "clip_value": 1.5},
    "adamw": {"kind": "adamw", "weight_decay": 0.01},
    "adamw_group": {"kind": "adamw", "weight_decay": 0.01, "group_lr_factor": 0.25, "group_weight_decay": 0.5},
    "adamw_clip_norm": {"kind": "adamw", "weight_decay": 0.01, "clip_norm": 2.5},
    "adamw_ema": {"kind": "adamw", "weight_decay": 0.01, "ema": 0.99},
    "adagrad": {"kind": "adagrad", "eps": 1e-10},
    "adagrad_decay": {"kind": "adagrad", "eps": 1e-3, "weight_decay": 0.1, "clip_norm": 2.5},
    "rmsprop": {"kind": "rmsprop"},
    "rmsprop_momentum": {"kind": "rmsprop", "momentum": 0.9, "alpha": 0.9},
    "rmsprop_centered": {"kind": "rmsprop", "centered": True, "alpha": 0.3, "eps": 1e-3},
    "rmsprop_centered_momentum": {"kind": "rmsprop", "centered": True, "momentum": 0.5, "eps": 1e-3,
                                  "clip_value": 1.5, "group_lr_factor": 0.25, "group_weight_decay": 0.5},
    "lion": {"kind": "lion", "betas": [0.9, 0.99]},
    "lion_decay": {"kind": "lion", "betas": [0.95, 0.98], "weight_decay": 0.1, "group_lr_factor": 0.25,
                   "group_weight_decay": 0.5},
    "lamb": {"kind": "lamb", "eps": 1e-6, "weight_decay": 0.01},
    "lamb_group": {"kind": "lamb", "betas": [0.8, 0.95], "eps": 1e-3, "clip_value": 1.5, "group_lr_factor": 0.25,
                   "group_weight_decay": 0.5},
    "lars": {"kind": "lars", "trust": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "lars_plain": {"kind": "lars", "clip_norm": 2.5},
}


class Paper(torch.optim.Optimizer):
    """One tensor at a time, memories begin as 0."""

    def __init__(self, groups, run, lr, decay):
        super().__init__(groups, {"lr": lr, "weight_decay": decay})
        self.run = run

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                state["t"] = state.get("t", 0) + 1
                getattr(self, self.run["kind"])(w, w.grad, state, group["lr"], group["weight_decay"])

    def lion(self, w, g, state, lr, decay):
        beta1, beta2 = self.run["betas"]
        m = state.setdefault("lion_m", torch.zeros_like(w))
        w.mul_(1 - lr * decay).sub_(lr * torch.sign(m * beta1 + g * (1 - beta1)))
        m.mul_(beta2).add_(g, alpha=1 - beta2)

    def lamb(self, w, g, state, lr, decay):
        beta1, beta2 = self.run.get("betas", (0.9, 0.999))
        m, v = (state.setdefault("lamb_" + key, torch.zeros_like(w)) for key in "mv")
        m.mul_(beta1).add_(g, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        r = m / (1 - beta1 ** state["t"]) / ((v / (1 - beta2 ** state["t"])).sqrt() + self.run["eps"]) + decay * w
        norms = [x.double().norm().item() for x in (w, r)]
        w.sub_(r, alpha=lr * (norms[0] / norms[1] if min(norms) > 0 else 1))

    def lars(self, w, g, state, lr, decay):
        norms = [x.double().norm().item() for x in (w, g)]
        divisor = norms[1] + decay * norms[0]
        local = lr * (self.run.get("trust", 0.001) * norms[0] / divisor if norms[0] > 0 and divisor > 0 else 1)
        u = g + decay * w
        if "momentum" in self.run:
            u = state.setdefault("momentum_buffer", torch.zeros_like(w)).mul_(self.run["momentum"]).add_(u, alpha=local)
            local = 1
        w.sub_(u, alpha=local)


def gradient(step, first, count):
    g = [((step * 7919 + (first + i) * 104729) % 2003 - 1001) / 256 for i in range(count)]
    if first == 0:
        g[1], g[2] = 0.0, g[2] / 2**20
    return g


def rate(step):
    return 0.01 if step <= 100 else 0.003


def optimizer(run, a, b):
    lr = rate(1)
    decay = run.get("weight_decay", 0.0)
    groups = [{"params": [a]}, {"params": [b], "weight_decay": run.get("group_weight_decay", decay)}]
    if run["kind"] == "sgd":
        return torch.optim.SGD(groups, lr, run.get("momentum", 0.0), run.get("dampening", 0.0), decay,
                               run.get("nesterov", False), foreach=False)
    if run["kind"] == "adagrad":
        return torch.optim.Adagrad(groups, lr, weight_decay=decay, eps=run["eps"], foreach=False)
    if run["kind"] == "rmsprop":
        return torch.optim.RMSprop(groups, lr, run.get("alpha", 0.99), run.get("eps", 1e-8), decay,
                                   run.get("momentum", 0), run.get("centered", False), foreach=False)
    if run["kind"] in ("lion", "lamb", "lars"):
        return Paper(groups, run, lr, decay)
    kind = torch.optim.Adam if run["kind"] == "adam" else torch.optim.AdamW
    return kind(groups, lr, tuple(run.get("betas", (0.9, 0.999))), run.get("eps", 1e-8), decay, foreach=False)


def states(run, opt, parameters, averages):
    slots = {"momentum_buffer": "momentum/", "exp_avg": "adam/m/", "exp_avg_sq": "adam/v/", "sum": "adagrad/h/",
             "square_avg": "rmsprop/v/", "grad_avg": "rmsprop/mean/", "lion_m": "lion/m/", "lamb_m": "lamb/m/",
             "lamb_v": "lamb/v/"}
    out = {}
    for name, p in parameters.items():
        out[name] = p.tolist()
        for key, value in opt.state[p].items():
            if key in slots and value is not None:
                out[slots[key] + name] = value.tolist()
        if "ema" in run:
            out["ema/" + name] = averages[name].tolist()
    return out


for name, run in RUNS.items():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    for dtype in (torch.float64, torch.float32):
        parameters = {"a": torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=dtype, requires_grad=True),
                      "b": torch.tensor([0.25, -0.125, 1.5], dtype=dtype, requires_grad=True)}
        averages = {key: p.detach().clone() for key, p in parameters.items()}
        opt = optimizer(run, *parameters.values())
        for step in range(1, STEPS + 1):
            for p, first in zip(parameters.values(), (0, 4)):
                p.grad = torch.tensor(gradient(step, first, len(p)), dtype=dtype)
            if "clip_norm" in run:
                torch.nn.utils.clip_grad_norm_(parameters.values(), run["clip_norm"])
            if "clip_value" in run:
                torch.nn.utils.clip_grad_value_(parameters.values(), run["clip_value"])
            for group, factor in zip(opt.param_groups, (1, run.get("group_lr_factor", 1))):
                group["lr"] = rate(step) * factor
            opt.step()
            if "ema" in run:
                with torch.no_grad():
                    get_ema_multi_avg_fn(run["ema"])(list(averages.values()), list(parameters.values()), step)
            if step in KEPT:
                print(json.dumps({"run": name, **run, "dtype": str(dtype)[6:], "step": step,
                                  "states": states(run, opt, parameters, averages)}))
