"""Parts of the check that compare the device with the CPU."""

import concurrent.futures
import importlib.util
import json
import os
import platform
from pathlib import Path

import machine

NETWORKS = ("lenet", "resnet", "preact", "mobilenet", "squeezenet")
# Tests of kernels that a build without oneDNN doesn't have.
LEFT_OUT = "*onednn*"
GROUP = 8  # tests of one process
# Of address space, in megabytes: CUDA reserves more than a machine has.
ADDRESSES = 100_000_000
# The type, how far the first loss and any loss may be apart.
PRECISIONS = (("f64", 1e-12, 1e-7), ("f32", 1e-5, 2e-3))
ROUNDED = (("tf32", 1e-3, 1e-2), ("bf16", 1e-2, 5e-2))  # from f32


def last_json(text: str) -> dict:
    lines = [line for line in text.splitlines() if line.startswith("{")]
    assert lines, f"no JSON in: {text[-300:]}"
    return json.loads(lines[-1])


def facts(check) -> None:
    results = check.part["results"]
    results["python"] = platform.python_version()
    results["libc"] = " ".join(platform.libc_ver())
    results["processors"] = os.cpu_count()
    results["library_folders"] = [str(folder) for folder in machine.library_folders()]
    results["driver_folders"] = [str(folder) for folder in machine.driver_folders()]
    torch = importlib.util.find_spec("torch")
    check.say(f"PyTorch: {Path(torch.origin).parent if torch else 'not here'}")
    smi = machine.nvidia_smi()
    if smi is None:
        check.say("nvidia-smi: not here")
    else:
        fields = "name,driver_version,memory.total,clocks.max.sm,power.limit,compute_mode"
        found = machine.run([smi, f"--query-gpu={fields}", "--format=csv,noheader"], 20)
        check.say(f"nvidia-smi: {found.out.strip() if found.ok else found.why()}")
    env = check.run([check.program("sardonyx"), "env", "--json"], 60)
    assert env.ok, f"sardonyx env: {env.why()}"
    results["env"] = json.loads(env.out)
    cuda = results["env"]["cuda"]
    check.no_device = cuda["unavailable"] or check.no_device
    for name, library in cuda["libraries"].items():
        check.say(f"{name} {library['version'] or library['missing'].splitlines()[0]}")
    check.say(f"CUDA runtime {cuda['runtime'] or 'not in this build'}, driver {cuda['driver'] or 'none'}")
    if cuda["devices"]:
        check.report.data["device"] = ", ".join(cuda["devices"])
        check.say(check.report.data["device"])
        missing = [name for name, library in cuda["libraries"].items() if library["missing"]]
        assert not missing, f"can't be loaded: {', '.join(missing)}; sardonyx env has what was tried"


def test_groups(check, program: Path) -> list[list[str]]:
    """Some tests of one suite each."""
    listed = check.run([program, "--gtest_list_tests", f"--gtest_filter=-{LEFT_OUT}"], 60)
    assert listed.ok, f"{program.name} --gtest_list_tests: {listed.why()}"
    groups, suite = [], ""
    for line in listed.out.splitlines():
        words = line.split("#")[0].split()
        if not line.startswith(" ") and words and words[0].endswith("."):
            suite = words[0]
            groups.append([])
        elif line.startswith("  ") and suite:
            if len(groups[-1]) == GROUP:
                groups.append([])
            groups[-1].append(suite + words[0])
    return [group for group in groups if group]


def run_group(check, number: int, program: Path, tests: list) -> dict:
    """A process of its own: what one does to the device doesn't reach the next."""
    result = {"tests": tests, "seconds": 0.0, "passed": 0, "skipped": 0, "failures": []}
    if check.left() < 3:
        result["failures"] = [{"test": test, "message": "the time was used up"} for test in tests]
        return result
    log = check.work / f"tests-{number}.json"
    done = check.run([program, "--gtest_filter=" + ":".join(tests), f"--gtest_output=json:{log}"], 60)
    result["seconds"] = done.seconds
    try:
        suites = json.loads(log.read_text())["testsuites"]
    except (OSError, ValueError):
        result["failures"].append({"test": tests[0], "message": f"the process ended early: {done.why()}"})
        return result
    for test in (test for suite in suites for test in suite["testsuite"]):
        if test.get("failures"):
            message = test["failures"][0]["failure"]
            result["failures"].append({"test": f"{test['classname']}.{test['name']}", "message": message[:800]})
        elif test.get("result") == "SKIPPED":
            result["skipped"] += 1
        else:
            result["passed"] += 1
    if done.status != 0 and not result["failures"]:
        result["failures"].append({"test": tests[0], "message": f"passed, and then: {done.why()}"})
    return result


def kernels(check) -> None:
    program = check.program("cuda_device_tests")
    groups = test_groups(check, program)
    check.say(f"{sum(map(len, groups))} tests in {len(groups)} groups")
    check.need_device()
    results = check.part["results"]["groups"] = []
    with concurrent.futures.ThreadPoolExecutor(min(6, os.cpu_count() or 1)) as pool:
        for result in pool.map(lambda item: run_group(check, item[0], program, item[1]), enumerate(groups)):
            results.append(result)
            check.report.save()
    failures = [failure for result in results for failure in result["failures"]]
    passed, skipped = (sum(result[key] for result in results) for key in ("passed", "skipped"))
    check.say(f"{passed} tests passed, {len(failures)} failed, {skipped} skipped")
    assert not failures, "; ".join(f"{f['test']}: {f['message'].splitlines()[0]}" for f in failures[:5])


def model(check, name: str, *flags: str) -> Path:
    path = check.work / ("-".join([name, *flags]).replace("/", "_") + ".onnx")
    if not path.exists():
        done = check.run([check.program("sardonyx"), "model", name, *flags, "-o", path], 60)
        assert done.ok, f"sardonyx model {name}: {done.why()}"
    return path


class NotBuilt(Exception):
    """A rounded type that this build refuses, or has no kernels for."""


def expect_done(done: machine.Done, what: str, dtype: str) -> None:
    refused = done.status == 2 and "--dtype" in done.err or "no kernel runs these nodes" in done.err
    if refused and dtype in [name for name, *_ in ROUNDED]:
        raise NotBuilt(done.err.strip().splitlines()[0])
    assert done.ok, f"{what}: {done.why()}"


def losses(check, devices: str, dtype: str, *flags: str) -> list[float]:
    """Of LeNet's steps on synthetic images."""
    log = check.work / f"losses-{devices.replace(':', '').replace(',', '-')}.jsonl"
    log.unlink(missing_ok=True)
    done = check.run([check.program("sardonyx"), "train", model(check, "lenet"), "--data", "synthetic:640", "--batch",
                      "64", "--epochs", "2", "--eval-every", "0", "--lr", "0.05", "--momentum", "0.9", "--devices",
                      devices, "--dtype", dtype, "--log", log, *flags], 60)
    expect_done(done, f"sardonyx train --devices {devices} --dtype {dtype}", dtype)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line and "step" in line]


def compare_losses(check, what: str, got: list, wanted: list, first: float, all_steps: float) -> None:
    """Rounding grows with the steps, since a Relu beside zero may turn."""
    assert len(got) == len(wanted) > 0, f"{what}: {len(got)} losses, {len(wanted)} expected"
    errors = [abs(g - w) / abs(w) for g, w in zip(got, wanted)]
    check.say(f"{what}: {len(got)} losses, first apart by {errors[0]:.1e}, most by {max(errors):.1e}")
    assert errors[0] <= first and max(errors) <= all_steps, \
        f"{what}: {got[0]} and {wanted[0]} at first; apart by {errors[0]:.1e}, later by {max(errors):.1e}"


def training(check) -> None:
    wanted = {}
    for dtype, *_ in PRECISIONS:
        wanted[dtype] = losses(check, "cpu", dtype)
    check.say(f"LeNet on the CPU: loss {wanted['f32'][0]:.4f} to {wanted['f32'][-1]:.4f}")
    chosen, faults = fixtures(check), []
    check.need_device()
    for dtype, first, all_steps in PRECISIONS:
        try:
            compare_losses(check, f"LeNet {dtype}", losses(check, "cuda:0", dtype), wanted[dtype], first,
                           all_steps)
        except AssertionError as error:
            faults.append(str(error))
    for dtype, first, all_steps in ROUNDED:
        try:
            compare_losses(check, f"LeNet {dtype} beside f32", losses(check, "cuda:0", dtype), wanted["f32"],
                           first, all_steps)
        except NotBuilt:
            check.say(f"LeNet {dtype}: not built")
        except AssertionError as error:
            faults.append(str(error))
    if chosen:
        try:
            run_fixtures(check, chosen)
        except AssertionError as error:
            faults.append(str(error))
    assert not faults, "; ".join(faults)


def fixtures(check) -> list:
    """The arguments that choose those of convolutional networks; empty when there are none."""
    if check.programs.run_cases is None or check.programs.fixtures is None:
        check.say("no run_cases or no fixtures here")
        return []
    if check.programs.source is not None:
        check.env["SARDONYX_SOURCE"] = str(check.programs.source)
    chosen = [check.programs.fixtures, "--filter", ",".join(f"*{name}*" for name in NETWORKS)]
    listed = check.run([check.programs.run_cases, *chosen, "--list"], 30)
    assert listed.ok, f"run_cases --list: {listed.why()}"
    check.say(f"{len(listed.out.splitlines())} fixtures of convolutional networks")
    return chosen


def run_fixtures(check, chosen: list) -> None:
    done = check.run([check.programs.run_cases, *chosen, "--device", "cuda:0", "--memory", ADDRESSES, "--jobs", 4], 80)
    lines = done.out.splitlines()
    failed = [line for line in lines if line.startswith("FAIL ")]
    check.part["results"]["fixtures"] = [line for line in lines if line.startswith(("PASS ", "FAIL ", "SKIP "))]
    check.say(f"fixtures on cuda:0: {lines[-1] if lines else done.why()}")
    assert done.ok, f"{len(failed)} fixtures fail: {'; '.join(failed[:4]) or done.why()}"


def replicas(check) -> None:
    check.program("sardonyx")
    check.need_device()
    for dtype, first, all_steps in PRECISIONS:
        one = losses(check, "cuda:0", dtype)
        two = losses(check, "cuda:0,cuda:0", dtype, "--check-replicas", "1")
        compare_losses(check, f"2 replicas, {dtype}", two, one, first, all_steps)
