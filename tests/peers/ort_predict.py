#!/usr/bin/env python3
"""Compares the predictions that `sardonyx eval --predictions` wrote with those of ONNX Runtime for the same file.

Needs onnxruntime and numpy. Prints the largest absolute difference of the scores and the share of equal classes;
exit code 1 when a score differs by more than --tolerance.

Example: ort_predict.py --model trained.onnx --predictions scores.npy
"""
import argparse
import gzip

import numpy as np
import onnxruntime

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("--model", required=True)
p.add_argument("--predictions", required=True)
p.add_argument("--images", default="/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz")
p.add_argument("--tolerance", type=float, default=1e-4)
a = p.parse_args()
x = np.frombuffer(gzip.open(a.images).read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
x = x.astype(np.float32) / np.float32(255)
session = onnxruntime.InferenceSession(a.model, providers=["CPUExecutionProvider"])
want = session.run(None, {session.get_inputs()[0].name: x})[0]
got = np.load(a.predictions)
difference = float(np.abs(got - want).max())
same = float((got.argmax(1) == want.argmax(1)).mean())
print(f"{len(got)} samples, largest difference {difference:.3g}, same class {100 * same:.2f} %")
raise SystemExit(difference > a.tolerance)
