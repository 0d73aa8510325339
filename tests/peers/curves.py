#!/usr/bin/env python3
"""Draws training curves of Sardonyx (`train --log`) beside those of a peer script, one panel per pair, and prints how
far the losses lie apart.

Needs matplotlib. Example: curves.py -o curves.svg 'batch 256=ours.jsonl,torch.jsonl' 'micro-batches=a.jsonl,b.jsonl'
"""
import argparse
import json

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("-o", "--output", required=True, metavar="FILE.svg")
p.add_argument("pairs", nargs="+", metavar="TITLE=OURS,PEER")
a = p.parse_args()


def read(path):
    lines = [json.loads(line) for line in open(path) if line.startswith("{")]
    steps = [line["loss"] for line in lines if "loss" in line]
    epochs = [line["test_accuracy"] for line in lines if "epoch" in line]
    return steps, epochs


figure, axes = plt.subplots(1, len(a.pairs), figsize=(4.6 * len(a.pairs), 3.6), sharey=True, squeeze=False)
for axis, pair in zip(axes[0], a.pairs):
    title, files = pair.split("=")
    (ours, our_tests), (peer, peer_tests) = map(read, files.split(","))
    axis.plot(range(1, len(peer) + 1), peer, color="tab:orange", linewidth=3, alpha=0.6, label="PyTorch")
    axis.plot(range(1, len(ours) + 1), ours, color="tab:blue", linewidth=1.2, label="Sardonyx")
    percent = lambda tests: ", ".join(f"{100 * t:.1f} %" for t in tests)
    axis.set_title(f"{title}\ntest: {percent(our_tests)} (PyTorch {percent(peer_tests)})", fontsize=9)
    axis.set_xlabel("step")
    axis.grid(alpha=0.3)
    apart = [abs(x - y) / abs(y) for x, y in zip(ours, peer)]
    print(f"{title}: {min(len(ours), len(peer))} steps; relative difference of the first 5 losses:",
          ", ".join(f"{x:.1e}" for x in apart[:5]), f"; test accuracy {percent(our_tests)} (peer {percent(peer_tests)})")
axes[0][0].set_ylabel("training loss")
axes[0][0].legend()
figure.tight_layout()
figure.savefig(a.output)
