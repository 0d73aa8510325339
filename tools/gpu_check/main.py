"""Checks Sardonyx on cuda:0 and writes report.json and report.md; tools/gpu_check.sh starts it.

Parts, the most valuable first; each has a time of its own and may fail alone:
  facts     what this machine has: devices, driver, cuDNN, cuBLAS, NCCL, PyTorch
  kernels   every CUDA kernel against the CPU's, the waist, whole networks against the CPU
  training  LeNet on cuda:0 with the losses of the CPU; fixtures with the losses of their exporters
  speed     W1 to W4 in f32, tf32 and bf16 beside PyTorch, eager and compiled, alternately
  replicas  two replicas on one device train as one does with the whole batch
  memory    what a step of W2 takes on the device, beside what was planned

Status 0: all parts that ran have passed. 1: one failed, or nothing could run for want of a device (a dry run is
content with that). 2: usage.
"""

import argparse
import datetime
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import correctness
import machine
import speed
from report import Report

# name, title, function(check) -> None, seconds of a budget of 480
PARTS = [
    ("facts", "facts of the machine", correctness.facts, 40),
    ("kernels", "CUDA kernels against the CPU", correctness.kernels, 120),
    ("training", "training as on the CPU", correctness.training, 90),
    ("speed", "speed beside PyTorch", speed.speed, 400),
    ("replicas", "two replicas on one device", correctness.replicas, 30),
    ("memory", "memory planned and used", speed.memory, 30),
]
BUDGET = 480
LAST_PARTS = 45  # seconds of BUDGET that the speed part leaves to those behind it


class Skip(Exception):
    """A part that can't run here, with the reason."""


class Check:
    """What the parts share."""

    Skip = Skip

    def __init__(self, options):
        self.options = options
        self.dry_run = options.dry_run
        self.budget = options.budget
        self.start = self.deadline = time.monotonic()
        self.programs = machine.Programs.find(options.build)
        self.env = machine.environment()
        self.no_device = "a dry run" if options.dry_run else ""  # or what facts finds
        self.part = None
        self.report = None
        self.peers = None
        self.work = None

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.start:5.0f} s] {self.part['name']}: {text}", flush=True)
        self.part["results"].setdefault("said", []).append(text)
        self.report.save()

    def program(self, name: str) -> Path:
        path = getattr(self.programs, name)
        if path is None:
            raise Skip(f"there is no {name} here")
        return path

    def run(self, command: list, limit: float = 1e9) -> machine.Done:
        return machine.run(command, min(limit, self.left()), self.env)

    def need_device(self) -> None:
        """Everything above a call of this runs in a dry run, too."""
        if self.no_device:
            raise Skip(self.no_device)


def run_part(check: Check, name: str, title: str, function, limit: float) -> None:
    scale = check.budget / BUDGET
    end = check.start + check.budget
    if name == "speed":
        end -= LAST_PARTS * scale
    begin = time.monotonic()
    check.deadline = min(begin + limit * scale, end)
    check.part = check.report.part(name, title)
    try:
        if check.left() < 2:
            raise Skip("the time is used up; --budget gives more")
        function(check)
        check.part["status"] = "passed"
    except Skip as reason:
        check.part["status"], check.part["reason"] = "skipped", str(reason)
    except AssertionError as error:
        check.part["status"], check.part["reason"] = "failed", str(error)
    except Exception as error:  # a fault of this script is no reason to lose the other parts
        check.part["status"], check.part["reason"] = "failed", f"{type(error).__name__}: {error}"
    finally:
        check.part["seconds"] = time.monotonic() - begin
        check.report.save()
        print(f"[{time.monotonic() - check.start:5.0f} s] {name}: {check.part['status']} {check.part['reason']}",
              flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name, *_ in PARTS]
    parser.add_argument("--only", action="append", choices=names, metavar="PART", help="this part (may be repeated)")
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS", help="in all (default %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="everything up to the first call that needs a device")
    parser.add_argument("--out", default=".", metavar="DIR", help="where the reports go (default: here)")
    parser.add_argument("--build", metavar="DIR", help="a build folder with the programs (default: those of the bundle, "
                        "else build/release)")
    return parser.parse_args()


def stop(check: Check, number: int) -> None:
    """At once, whatever is running; the report says how far it came."""
    if check.part is not None and check.part["status"] == "running":
        check.part["status"], check.part["reason"] = "stopped", f"by signal {number}"
    check.report.save()
    machine.end_all()
    if check.work is not None:
        shutil.rmtree(check.work, ignore_errors=True)
    os._exit(128 + number)


def refused(check: Check) -> str:
    """Why there is no point in beginning; empty: there is."""
    options = check.options
    if not 0 <= options.budget < 1e9:
        return f"--budget {options.budget:g}: expected seconds"
    if check.programs.sardonyx is None:
        return (f"there is no program sardonyx in {options.build or 'build/release'}; build it (tools/test.sh), or name "
                "its build folder with --build")
    try:
        Path(options.out).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=options.out):
            return ""
    except OSError as error:
        return f"--out {options.out}: no report can be written there ({error.strerror}); name another folder"


def main() -> int:
    options = parse()
    check = Check(options)
    reason = refused(check)
    if reason:
        print(f"gpu_check.sh: {reason}", file=sys.stderr)
        return 2
    started = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    check.report = Report(Path(options.out), {"started": started, "host": platform.platform(), "device": "no device",
                                              "dry_run": options.dry_run, "budget_s": options.budget})
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: stop(check, number))
    with tempfile.TemporaryDirectory() as work:
        check.work = Path(work)
        for name, title, function, limit in PARTS:
            # The others ask what the first found.
            if name == "facts" or not options.only or name in options.only:
                run_part(check, name, title, function, limit)
            if name == "facts" and (not options.only or "speed" in options.only):
                speed.start_peers(check)
        machine.end_all()
        check.report.data["finished"] = True
        check.report.save()
    print(f"report: {Path(options.out) / 'report.json'}, {Path(options.out) / 'report.md'}")
    checked = any(part["status"] == "passed" and part["name"] != "facts" for part in check.report.data["parts"])
    only_facts = options.only == ["facts"]
    return 1 if check.report.failed() or not (checked or check.dry_run or only_facts) else 0


if __name__ == "__main__":
    sys.exit(main())
