#!/usr/bin/env python3
"""Writes the learning rates of PyTorch's schedulers: the numbers of tests/runtime/lr_schedule_test.cc.

Needs torch. A run has 6 epochs of 5 steps and the base rate 0.2; one line per schedule, as the flags of
`sardonyx train` say it, with the rate of every step.

Example: torch_schedules.py > tests/runtime/torch_schedules.jsonl
"""
import json

import torch
from torch.optim import lr_scheduler as s

EPOCH, STEPS, WARMUP = 5, 30, 8


def warm(opt, behind):
    first = s.LinearLR(opt, 1 / WARMUP, 1.0, WARMUP - 1)
    return s.SequentialLR(opt, [first, behind], [WARMUP])


# flags; the scheduler; steps between two calls of it
RUNS = [
    ({"schedule": "step:2,0.3"}, lambda o: s.StepLR(o, 2, 0.3), EPOCH),
    ({"schedule": "step:7steps,0.3"}, lambda o: s.StepLR(o, 7, 0.3), 1),
    ({"schedule": "multistep:1,4,0.1"}, lambda o: s.MultiStepLR(o, [1, 4], 0.1), EPOCH),
    ({"schedule": "multistep:3steps,4steps,20steps,0.5"}, lambda o: s.MultiStepLR(o, [3, 4, 20], 0.5), 1),
    ({"schedule": "exponential:0.7"}, lambda o: s.ExponentialLR(o, 0.7), EPOCH),
    ({"schedule": "cosine"}, lambda o: s.CosineAnnealingLR(o, STEPS), 1),
    ({"schedule": "cosine:0.02"}, lambda o: s.CosineAnnealingLR(o, STEPS, 0.02), 1),
    ({"schedule": "", "warmup": f"{WARMUP}steps"}, lambda o: s.LinearLR(o, 1 / WARMUP, 1.0, WARMUP - 1), 1),
    ({"schedule": "cosine:0.02", "warmup": f"{WARMUP}steps"},
     lambda o: warm(o, s.CosineAnnealingLR(o, STEPS - WARMUP, 0.02)), 1),
]

for flags, make, every in RUNS:
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.2)
    scheduler = make(opt)
    rates = []
    for step in range(STEPS):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        if (step + 1) % every == 0:
            scheduler.step()
    print(json.dumps({**flags, "rates": rates}))
