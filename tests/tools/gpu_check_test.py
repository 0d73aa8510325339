#!/usr/bin/env python3
"""tools/gpu_check.sh: a dry run with the programs of this build, and whole runs with stand-ins for them.

SARDONYX_BUILD names the build folder; without it the dry run is left out. The stand-ins answer as on a machine with a
device, well or badly, so that what a real one would be told is known before there is one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ["facts", "kernels", "training", "speed", "replicas", "memory"]

# What a stand-in for `sardonyx` answers; FAULT names what goes wrong.
SARDONYX = f"#!{sys.executable}" + r'''
import json, os, sys, time
fault, (command, *rest) = os.environ.get("FAULT", ""), sys.argv[1:]
flag = lambda name: rest[rest.index(name) + 1] if name in rest else ""
if command == "env":
    no = {"version": "", "missing": "cuDNN 9 can't be loaded"}
    libraries = {"cuDNN": no if fault == "no cudnn" else {"version": "9.1.0", "missing": ""}}
    print(json.dumps({"cuda": {"runtime": "13.0", "driver": "13.0", "unavailable": "", "libraries": libraries,
                               "devices": ["cuda:0 (NVIDIA Test, sm_90)"]}}))
elif command == "model":
    open(flag("-o"), "w").close()
elif command == "train" and "--dry-run" in rest:
    print("plan: batch 512, arena 7 bytes")
elif flag("--dtype") == "bf16":
    print("error: --dtype bf16: not built yet; there is f32, f64", file=sys.stderr)
    sys.exit(2)
elif command == "train":
    if fault == "hang":
        time.sleep(60)
    wrong = fault == "wrong losses" and "cuda" in flag("--devices")
    with open(flag("--log"), "w") as log:
        for step in range(1, 4):
            print(json.dumps({"step": step, "loss": 2.3 + (0.1 if wrong else 0)}), file=log)
        print(json.dumps({"epoch": 1, "step": 3, "train_loss": 2.3}), file=log)
elif command == "bench":
    if fault == "bench fails" and flag("--dtype") == "tf32":
        print("error: no engine", file=sys.stderr)
        sys.exit(1)
    record = {"images_per_s": 1000.0, "step_ms": 500.0, "planned_bytes": 1 << 30, "peak_rss_bytes": 1, "startup_s": 1.0}
    print(json.dumps(record))
    print(json.dumps({**record, "ops": [{"node": "conv1", "kernel": "conv.cudnn", "ms": 1.5}]}))
'''

TESTS = f"#!{sys.executable}" + r'''
import json, os, sys
flags = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
if "--gtest_list_tests" in sys.argv:
    print("Good.\n  one\n  two\nBad.\n  three  # a comment")
    sys.exit(0)
tests = flags["gtest_filter"].split(":")
fault = os.environ.get("FAULT", "")
if fault == "crash" and "Bad.three" in tests:
    os.abort()
cases = [{"classname": t.split(".")[0], "name": t.split(".")[1], "result": "COMPLETED"} for t in tests]
for case in cases:
    if fault == "test fails" and case["name"] == "three":
        case["failures"] = [{"failure": "three is four\nmore"}]
with open(flags["gtest_output"][len("json:"):], "w") as log:
    json.dump({"testsuites": [{"testsuite": cases}]}, log)
sys.exit(any("failures" in case for case in cases))
'''

RUN_CASES = r'''#!/bin/bash
case "$*" in
  *--list*) echo "FIX-1 fixtures/one" ;;
  *) echo "PASS FIX-1"; echo "1 passed, 0 failed, 0 skipped" ;;
esac
'''


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"

    def report(self) -> dict:
        return json.loads((self.out / "report.json").read_text())

    def parts(self) -> dict:
        return {part["name"]: part for part in self.report()["parts"]}


class Text(unittest.TestCase):
    def test_scripts_are_valid_bash_and_explain_themselves(self):
        for script in ("gpu_bundle.sh", "gpu_check.sh"):
            path = ROOT / "tools" / script
            self.assertEqual(subprocess.run(["/bin/bash", "-n", path], check=False).returncode, 0)
            helped = subprocess.run([path, "--help"], capture_output=True, text=True, check=False)
            self.assertEqual(helped.returncode, 0, helped.stderr)
            self.assertIn("usage", helped.stdout.lower())


@unittest.skipUnless("SARDONYX_BUILD" in os.environ, "no build folder is named")
class DryRun(Script):
    def test_goes_as_far_as_it_can_without_a_device_and_says_what_stopped_each_part(self):
        done = subprocess.run([ROOT / "tools/gpu_check.sh", "--dry-run", "--out", self.out, "--build",
                               os.environ["SARDONYX_BUILD"]], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([part["name"] for part in self.report()["parts"]], PARTS)
        self.assertTrue(self.report()["finished"] and self.report()["dry_run"])
        parts = self.parts()
        self.assertEqual(parts["facts"]["status"], "passed")
        self.assertIn("libraries", parts["facts"]["results"]["env"]["cuda"])
        reasons = (parts["facts"]["results"]["env"]["cuda"]["unavailable"] or "a dry run",
                   "there is no cuda_device_tests here")
        for name in PARTS[1:]:
            self.assertEqual(parts[name]["status"], "skipped", parts[name])
            self.assertIn(parts[name]["reason"], reasons)
        self.assertRegex(parts["training"]["results"]["said"][0], r"^LeNet on the CPU: loss 2\.\d+ to 2\.\d+$")
        self.assertRegex(parts["memory"]["results"]["said"][0], r"^W2 on the CPU: batch 512, .*arena \d+ bytes")
        text = (self.out / "report.md").read_text()
        self.assertIn("| facts of the machine | passed |", text)
        self.assertIn("a dry run", text)


class WithStandIns(Script):
    def setUp(self):
        super().setUp()
        bundle = self.bundle = self.folder / "bundle"
        shutil.copytree(ROOT / "tools/gpu_check", bundle / "gpu_check")
        shutil.copy(ROOT / "tools/gpu_check.sh", bundle)
        stand_ins = {"sardonyx": SARDONYX, "cuda_device_tests": TESTS, "run_cases": RUN_CASES,
                     "nvidia-smi": "#!/bin/bash\necho 100\n"}
        for name, text in stand_ins.items():
            path = bundle / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        (bundle / "fixtures").mkdir()

    def command(self, *arguments: str) -> list:
        return [self.bundle / "gpu_check.sh", "--out", self.out, *arguments]

    def environment(self, fault: str) -> dict:
        return {**os.environ, "FAULT": fault, "PATH": f"{self.bundle / 'bin'}:{os.environ['PATH']}"}

    def check(self, fault: str = "", *arguments: str) -> int:
        done = subprocess.run(self.command(*arguments), env=self.environment(fault), capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode

    def test_whole_run_passes_and_has_the_table(self):
        # Nothing is used beside what was planned for both: the same fake number.
        self.assertEqual(self.check(), 0, (self.out / "report.md").read_text())
        parts = self.parts()
        self.assertEqual({part["status"] for part in parts.values()}, {"passed"})
        self.assertEqual(self.report()["device"], "cuda:0 (NVIDIA Test, sm_90)")
        self.assertIn("3 tests passed, 0 failed, 0 skipped", parts["kernels"]["results"]["said"])
        comparisons = parts["speed"]["results"]["comparisons"]
        self.assertEqual(len(comparisons), 12)
        by_key = {(c["workload"], c["dtype"]): c["sardonyx"] for c in comparisons}
        self.assertEqual(by_key["W2", "f32"]["images_per_s"], 1000)
        self.assertEqual(by_key["W2", "bf16"]["reason"], "not built")
        text = (self.out / "report.md").read_text()
        self.assertIn("LeNet bf16: not built", text)
        self.assertRegex(text, r"\| W2 \| 512 \| f32 \| 1000 \(1000 to 1000\) \|")
        self.assertIn("W2 f32: slowest steps, ms: conv1 (conv.cudnn) 1.500", text)

    def expect_failure(self, fault: str, part: str, words: str):
        self.assertEqual(self.check(fault, "--only", part, "--only", "replicas"), 1)
        for name, found in self.parts().items():
            self.assertEqual(found["status"], "failed" if name == part else "passed", found)
        self.assertIn(words, self.parts()[part]["reason"])

    def test_failed_test_is_named_and_the_other_parts_run(self):
        self.expect_failure("test fails", "kernels", "Bad.three: three is four")

    def test_crash_is_of_its_group_alone(self):
        self.expect_failure("crash", "kernels", "Bad.three: the process ended early: signal 6")

    def test_losses_that_differ_fail_with_the_numbers(self):
        self.check("wrong losses", "--only", "training")
        self.assertIn("LeNet f32: 2.4 and 2.3 at first; apart by 4.3e-02", self.parts()["training"]["reason"])

    def test_workload_that_fails_leaves_the_others(self):
        self.expect_failure("bench fails", "speed", "W2 tf32: sardonyx bench W2 tf32: status 1; error: no engine")

    def test_missing_library_fails_the_facts_alone(self):
        self.expect_failure("no cudnn", "facts", "can't be loaded: cuDNN")

    def test_only_some_parts_run_after_the_facts(self):
        self.assertEqual(self.check("", "--only", "replicas"), 0)
        self.assertEqual(list(self.parts()), ["facts", "replicas"])

    def test_part_without_time_is_skipped_with_that_reason(self):
        self.check("", "--budget", "0")
        self.assertEqual(self.parts()["kernels"]["reason"], "the time is used up; --budget gives more")

    def test_report_stands_when_it_is_stopped_half_way(self):
        with subprocess.Popen(self.command(), env=self.environment("hang"), stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout:
                if "kernels: passed" in line:
                    break
            time.sleep(0.3)
            running.send_signal(signal.SIGTERM)
            self.assertEqual(running.wait(timeout=20), 128 + signal.SIGTERM)
        parts = self.parts()
        self.assertEqual(parts["kernels"]["status"], "passed")
        self.assertEqual((parts["training"]["status"], parts["training"]["reason"]), ("stopped", "by signal 15"))
        self.assertFalse(self.report()["finished"])
        self.assertIn("not finished", (self.out / "report.md").read_text())


if __name__ == "__main__":
    unittest.main()
