#!/usr/bin/env python3
"""Sardonyx against another trainer, alternately on the same machine, and a table of the results.

    tools/compare.py --workload W1 --peer torch --mode channels_last --venvs ~/venvs

Each pair is one run of `sardonyx bench` and one of a peer script (--peers: the folder with
peer_run.py; --venvs: DIR/torch, DIR/ort, ... with the peer installed), on the same number of threads,
with the same batch. Printed are the medians, the ratio of each pair with its spread, the load average
and the floating-point peak that Sardonyx probes in every run; a run whose probe is below 95 % of the best
one is left out and repeated, because something else was using the machine.

    tools/compare.py --write BENCHMARKS.md --results results.jsonl      writes the table from all results

Results are appended to --results, one JSON line per comparison.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name: the model of `sardonyx model`, the workload of the peer scripts, batch, accumulation, flags
WORKLOADS = {
    "W1": ("lenet", [], "lenet", 256, 1, []),
    "W1-1": ("lenet", [], "lenet", 1, 1, []),
    "W2": ("resnet18", [], "r18_28", 64, 1, []),
    "W2-256": ("resnet18", [], "r18_28", 256, 1, []),
    "W2-64x4": ("resnet18", [], "r18_28", 64, 4, []),
    "W3": ("resnet18", ["--stem", "imagenet", "--input", "3x32x32"], "r18_cifar", 64, 4,
           ["--momentum", "0.9", "--weight-decay", "5e-4"]),
    "W3-64": ("resnet18", ["--stem", "imagenet", "--input", "3x32x32"], "r18_cifar", 64, 1,
              ["--momentum", "0.9", "--weight-decay", "5e-4"]),
    "W4": ("resnet18", ["--stem", "imagenet", "--input", "3x224x224"], "r18_224", 16, 1,
           ["--momentum", "0.9", "--weight-decay", "5e-4"]),
}
# The scripts of the others leave --accum out of account and would be credited with all micro-batches.
ACCUMULATING_PEERS = ("torch", "onnx2torch", "ort", "tf")
LEAST_PROBE = 0.95
MOST_REPEATS = 10


def run_json(command: list[str], env: dict | None = None) -> list[dict]:
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return lines


def our_run(options, model: str) -> dict:
    _, _, _, batch, accumulate, flags = WORKLOADS[options.workload]
    # Enough steps for about a second: a first short run tells how long one takes.
    command = [options.sardonyx, "bench", model, "--batch", str(batch * accumulate), "--threads",
               str(options.threads), "--repetitions", "1", "--json", *flags, *options.flags.split()]
    if accumulate > 1:
        command += ["--accumulate", str(accumulate)]
    short = run_json(command + ["--steps", "1"])[0]
    steps = max(2, int(options.seconds * 1000 / short["step_ms"]))
    return run_json(command + ["--steps", str(steps)])[-1]


def peer_run(options) -> dict:
    _, _, workload, batch, accumulate, _ = WORKLOADS[options.workload]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "result.jsonl")
        command = [sys.executable, os.path.join(options.peers, "peer_run.py"), "--venvs", options.venvs,
                   "--out", out, "--timeout", str(options.timeout), options.allocator, options.peer,
                   "--workload", workload, "--batch", str(batch), "--accum", str(accumulate),
                   "--threads", str(options.threads), "--seconds", str(options.seconds), "--reps", "3"]
        if options.mode:
            command += ["--mode", options.mode]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0 or not os.path.exists(out):
            sys.exit(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout[-2000:]}")
        with open(out) as file:
            return json.loads(file.readlines()[-1])


def compare(options) -> dict:
    name, model_flags, _, _, accumulate, _ = WORKLOADS[options.workload]
    if accumulate > 1 and options.peer not in ACCUMULATING_PEERS:
        sys.exit(f"{options.workload} accumulates {accumulate} micro-batches, which the script of {options.peer} "
                 f"doesn't; those that do: {', '.join(ACCUMULATING_PEERS)}")
    pairs, repeats, best_probe = [], 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.onnx")
        subprocess.run([options.sardonyx, "model", name, *model_flags, "-o", model], check=True,
                       stdout=subprocess.DEVNULL)
        while len(pairs) < options.pairs:
            ours, peer = our_run(options, model), peer_run(options)
            probe = ours["peak_gflops"]
            best_probe = max(best_probe, probe)
            pairs = [pair for pair in pairs if pair[0]["peak_gflops"] >= LEAST_PROBE * best_probe]
            if probe >= LEAST_PROBE * best_probe:
                pairs.append((ours, peer))
            else:
                repeats += 1
            print(f"{len(pairs)}/{options.pairs}: sardonyx {ours['images_per_s']:.1f} img/s, {options.peer} "
                  f"{peer['img_s']:.1f} img/s, ratio {ours['images_per_s'] / peer['img_s']:.2f}, peak "
                  f"{probe:.0f} GFLOP/s, load {os.getloadavg()[0]:.1f}", flush=True)
            if repeats > MOST_REPEATS:
                sys.exit(f"the machine isn't quiet: {repeats} of {repeats + len(pairs)} runs had a probed peak "
                         f"below {LEAST_PROBE:.0%} of the best; nothing is reported")
    ratios = sorted(ours["images_per_s"] / peer["img_s"] for ours, peer in pairs)
    median = lambda values: statistics.median(list(values))
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line),
                    platform.machine()),
        "threads": options.threads,
        "workload": options.workload,
        "peer": f"{options.peer} {pairs[0][1]['version']} {pairs[0][1]['mode']}".strip(),
        "flags": options.flags,
        "pairs": len(pairs),
        "ours_img_s": round(median(ours["images_per_s"] for ours, _ in pairs), 1),
        "peer_img_s": round(median(peer["img_s"] for _, peer in pairs), 1),
        "ratio": round(median(ratios), 3),
        "least": round(ratios[0], 3),
        "most": round(ratios[-1], 3),
        "peak_gflops": round(best_probe, 1),
        "ours_rss_mib": round(median(ours["peak_rss_bytes"] for ours, _ in pairs) / 2**20),
        "peer_rss_mib": median(peer["peak_rss_mib"] for _, peer in pairs),
        "ours_start_s": round(median(ours["startup_s"] for ours, _ in pairs), 2),
        "peer_start_s": round(median(peer["start_to_first_step_s"] for _, peer in pairs), 2),
        "load": round(os.getloadavg()[0], 1),
    }


HEAD = """# Benchmarks

Written by `tools/compare.py`; the numbers are medians of alternating runs on one machine, and only ratios of
one line are comparable. Workloads: W1 LeNet on 1x28x28; W2 ResNet-18 (small stem) on 1x28x28; W3 and W4
torchvision's ResNet-18 on 3x32x32 and 3x224x224. The batch stands behind the name, "64x4" is four
micro-batches of 64 per update. Start: from the start of the process to the end of the first step.

To repeat a line:

    python3 -m venv venvs/torch && venvs/torch/bin/pip install torch
    tools/compare.py --workload W1 --peer torch --mode channels_last --peers PEERS --venvs venvs \\
        --results results.jsonl

PEERS is the folder with the peer scripts (`peer_run.py` and its `peer_NAME.py`).

| workload | threads | sardonyx img/s | peer | peer img/s | ratio (spread) | memory MiB | start s | machine |
|---|---|---|---|---|---|---|---|---|
"""


def table(results: list[dict]) -> str:
    text = HEAD
    for result in results:
        flags = f" `{result['flags']}`" if result["flags"] else ""
        text += (f"| {result['workload']}{flags} | {result['threads']} | {result['ours_img_s']} | {result['peer']} | "
                 f"{result['peer_img_s']} | **{result['ratio']:.2f}** ({result['least']:.2f} to {result['most']:.2f}, "
                 f"{result['pairs']} pairs) | {result['ours_rss_mib']} / {result['peer_rss_mib']} | "
                 f"{result['ours_start_s']} / {result['peer_start_s']} | {result['cpu']}, "
                 f"{result['peak_gflops']} GFLOP/s, {result['date']} |\n")
    return text


def latest(lines: list[str]) -> list[dict]:
    """The newest result of each workload, peer and set of flags."""
    found = {}
    for line in lines:
        result = json.loads(line)
        found[result["workload"], result["peer"], result["flags"], result["threads"]] = result
    return [found[key] for key in sorted(found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=sorted(WORKLOADS))
    parser.add_argument("--peer", help="torch, ort, mxnet, ...: as peer_run.py names them")
    parser.add_argument("--mode", default="", help="of the peer: eager, channels_last, compile, ...")
    parser.add_argument("--allocator", default="tuned", help="of the peer (default: tuned)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of timed steps per run (default 2)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run of the peer")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--flags", default="", help='more flags for sardonyx, such as "--replicas 2"')
    parser.add_argument("--sardonyx", default=str(ROOT / "build/release/tools/sardonyx"))
    parser.add_argument("--peers", default=str(ROOT.parent / "shared/bench"))
    parser.add_argument("--venvs", default="venvs")
    parser.add_argument("--results", default="results.jsonl")
    parser.add_argument("--write", metavar="FILE.md", help="only write the table of all --results")
    options = parser.parse_args()
    if options.write:
        with open(options.results) as file:
            text = table(latest(file.readlines()))
        path = pathlib.Path(options.write)
        # What others than this script measured stands behind its table, under headings.
        _, heading, rest = path.read_text().partition("\n## ") if path.exists() else ("", "", "")
        path.write_text(text + heading + rest)
        return
    if not options.workload or not options.peer:
        parser.error("--workload and --peer are needed, or --write")
    result = compare(options)
    with open(options.results, "a") as file:
        file.write(json.dumps(result) + "\n")
    print(f"{result['workload']}: {result['ratio']:.2f} times {result['peer']} ({result['least']:.2f} to "
          f"{result['most']:.2f}); sardonyx {result['ours_img_s']} img/s, {result['ours_rss_mib']} MiB; peer "
          f"{result['peer_img_s']} img/s, {result['peer_rss_mib']} MiB")


if __name__ == "__main__":
    main()
