"""Parts of the check that measure: W1 to W4 beside PyTorch, and memory."""

import importlib.util
import json
import os
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections import deque

import machine
from correctness import NotBuilt, expect_done, last_json, model

# The arguments of `sardonyx model`, the batch, the flags of `sardonyx bench`.
OPTIMIZER = ["--lr", "0.05"]
MOMENTUM = [*OPTIMIZER, "--momentum", "0.9", "--weight-decay", "5e-4"]
WORKLOADS = {
    "W1": (["lenet"], 2048, OPTIMIZER),
    "W2": (["resnet18"], 512, OPTIMIZER),
    "W3": (["resnet18", "--stem", "imagenet", "--input", "3x32x32"], 512, MOMENTUM),
    "W4": (["resnet18", "--stem", "imagenet", "--input", "3x224x224"], 128, MOMENTUM),
}
# The most valuable first.
ORDER = [("W2", "f32"), ("W2", "tf32"), ("W2", "bf16"), ("W1", "f32"), ("W4", "f32"), ("W3", "f32"), ("W4", "bf16"),
         ("W3", "bf16"), ("W1", "bf16"), ("W4", "tf32"), ("W3", "tf32"), ("W1", "tf32")]
ROUNDS = 3
ROUND_SECONDS = 0.6
WARMING = 5  # that compile at once
MODES = ("eager", "compile")


def peer_command(key: tuple, *more: str) -> list:
    workload, dtype = key
    return [sys.executable, "-B", machine.HERE / "peer.py", "--workload", workload, "--dtype", dtype, "--batch",
            WORKLOADS[workload][1], "--modes", ",".join(MODES), *more]


def peer_environment(check) -> dict:
    """Compiled code is kept for this run alone."""
    return {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "4", "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "1", "TORCHINDUCTOR_CACHE_DIR": str(check.work / "inductor")}


class Peer:
    """peer.py for one workload and type. It loads PyTorch at once and touches the device when it gets an order."""

    def __init__(self, check, key: tuple):
        self.key = key
        self.answers = queue.Queue()
        self.said = deque(maxlen=20)
        self.process = machine.start(peer_command(key), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=peer_environment(check))
        threading.Thread(target=self.listen, daemon=True).start()
        threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True).start()

    def listen(self) -> None:
        for line in self.process.stdout:
            if line.startswith("{"):
                self.answers.put(json.loads(line))
        self.answers.put(None)

    def ask(self, order: dict, limit: float) -> dict:
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            answer = self.answers.get(timeout=max(limit, 0.1))
        except queue.Empty:
            raise TimeoutError(f"PyTorch gave no answer for {limit:.0f} s") from None
        except BrokenPipeError:
            answer = None
        if answer is None:
            raise RuntimeError("PyTorch ended: " + "".join(self.said)[-600:])
        return answer


class Peers:
    """Fills PyTorch's cache of compiled code while the other parts run, then gives one peer after the other; the next
    one is loading meanwhile."""

    def __init__(self, check):
        self.check = check
        self.to_warm = deque(ORDER)
        self.to_give = deque(ORDER)
        self.loading = None
        self.warmers = [threading.Thread(target=self.warm, daemon=True) for _ in range(WARMING)]
        for thread in self.warmers:
            thread.start()

    def warm(self) -> None:
        while self.to_warm:
            try:
                key = self.to_warm.popleft()
            except IndexError:
                return
            machine.run(peer_command(key, "--warm"), 200, peer_environment(self.check))

    def settle(self, limit: float) -> int:
        """From now on nothing compiles beside what is timed. Returns how many were not reached."""
        missed = len(self.to_warm)
        self.to_warm.clear()
        end = time.monotonic() + limit
        for thread in self.warmers:
            thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in self.warmers):
            machine.end_all()
        return missed

    def next(self, key: tuple) -> Peer:
        peer = self.loading if self.loading is not None and self.loading.key == key else Peer(self.check, key)
        while self.to_give and self.to_give.popleft() != key:
            pass
        self.loading = Peer(self.check, self.to_give[0]) if self.to_give else None
        return peer


def no_torch() -> str:
    return "" if importlib.util.find_spec("torch") else "no PyTorch in this Python"


def start_peers(check) -> None:
    """Before the parts that need no quiet."""
    if not check.no_device and not no_torch():
        check.peers = Peers(check)


def bench(check, workload: str, dtype: str, steps: int, repetitions: int) -> list[dict]:
    names, batch, flags = WORKLOADS[workload]
    done = check.run([check.program("sardonyx"), "bench", model(check, *names), "--devices", "cuda:0", "--dtype", dtype,
                      "--batch", batch, "--steps", steps, "--repetitions", repetitions, "--json", *flags], 60)
    expect_done(done, f"sardonyx bench {workload} {dtype}", dtype)
    return [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]


def steps_for(ms: float) -> int:
    return max(3, min(2000, int(1e3 * ROUND_SECONDS / max(ms, 1e-3))))


def measure(check, workload: str, dtype: str) -> dict:
    """One comparison: first runs say how many steps a round has, then both sides alternate."""
    batch = WORKLOADS[workload][1]
    result = {"workload": workload, "dtype": dtype, "batch": batch, "torch": {}, "ratios": {}}
    ours, torch = result.setdefault("sardonyx", {}), result["torch"]
    ours_steps, peer = 0, None
    try:
        ours_steps = steps_for(bench(check, workload, dtype, 5, 1)[0]["step_ms"])
    except NotBuilt:
        ours["reason"] = "not built"
    except AssertionError as error:
        ours.update({"reason": str(error), "failed": True})
    try:
        if check.peers is not None:
            peer = check.peers.next((workload, dtype))
            torch.update(peer.ask({"prepare": True}, check.left())["modes"])
        runs = alternate(check, result, ours_steps, peer)
    except (TimeoutError, RuntimeError) as error:
        runs = {}
        torch.update({mode: {"reason": str(error)} for mode in MODES})
    finally:
        if peer is not None:
            machine.end(peer.process)
    for side, rates in runs.items():
        target = ours if side == "sardonyx" else torch[side]
        target.update({"images_per_s": statistics.median(rates), "runs": rates})
    for mode in MODES:
        if "images_per_s" in ours and "images_per_s" in torch.get(mode, {}):
            result["ratios"][mode] = ours["images_per_s"] / torch[mode]["images_per_s"]
    return result


def alternate(check, result: dict, ours_steps: int, peer: Peer | None) -> dict:
    """Images per second of each side's rounds."""
    workload, dtype, batch, torch = (result[key] for key in ("workload", "dtype", "batch", "torch"))
    runs = {}
    for _ in range(ROUNDS):
        if ours_steps > 0:
            records = bench(check, workload, dtype, ours_steps, 1)
            runs.setdefault("sardonyx", []).append(records[0]["images_per_s"])
            last = records[-1]
            result["sardonyx"].update({key: last[key] for key in ("planned_bytes", "peak_rss_bytes", "startup_s")})
            result["sardonyx"]["slowest"] = last["ops"][:16]
        for mode in MODES:
            if peer is None or "ms" not in torch.get(mode, {}):
                continue
            said = peer.ask({"mode": mode, "steps": steps_for(torch[mode]["ms"])}, check.left())
            runs.setdefault(mode, []).append(1e3 * batch / said["ms"])
            torch[mode].update(said)
        if check.left() < 15:
            break
    return runs


def speed(check) -> None:
    for names, *_ in WORKLOADS.values():
        model(check, *names)
    check.say(f"wrote the models of {', '.join(WORKLOADS)}; {no_torch() or 'PyTorch is the peer'}")
    check.need_device()
    if check.peers is not None:
        missed = check.peers.settle(0.1 * check.left())
        check.say(f"{len(ORDER) - missed} of {len(ORDER)} were compiled beside the other parts")
    results = check.part["results"]
    results["comparisons"], faults = [], []
    for workload, dtype in ORDER:
        if check.left() < 20:
            check.say(f"no time was left from {workload} {dtype} on")
            break
        try:
            result = measure(check, workload, dtype)
        except Exception as error:  # the next workload may do
            faults.append(f"{workload} {dtype}: {error}")
            check.say(faults[-1])
            continue
        results["comparisons"].append(result)
        ours = result["sardonyx"]
        if ours.get("failed"):
            faults.append(f"{workload} {dtype}: {ours['reason']}")
        rate = f"{ours['images_per_s']:.0f} images/s" if "images_per_s" in ours else ours["reason"]
        ratios = ", ".join(f"{ratio:.2f} of {mode}" for mode, ratio in result["ratios"].items())
        check.say(f"{workload} {dtype}: {rate}{', ' if ratios else ''}{ratios}")
    assert not faults, "; ".join(faults)
    assert any("images_per_s" in each["sardonyx"] for each in results["comparisons"]), "nothing was timed"


class Memory:
    """The most memory of the device that is taken while this lives, as nvidia-smi sees it."""

    def __init__(self):
        self.seen, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self) -> None:
        command = [machine.nvidia_smi(), "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
        while not self.over.is_set():
            used = machine.run(command, 10).out.strip()
            if used.isdigit():
                self.seen.append(int(used) << 20)
            time.sleep(0.02)

    def end(self) -> int:
        self.over.set()
        self.thread.join()
        return max(self.seen, default=0)


def memory(check) -> None:
    """W2 against a tiny run, which takes what CUDA and its libraries take themselves."""
    names, batch, flags = WORKLOADS["W2"]
    dry = check.run([check.program("sardonyx"), "train", model(check, *names), "--data", f"synthetic:{batch}", "--batch",
                     batch, "--dry-run", "--devices", "cpu", *flags], 60)
    assert dry.ok, f"sardonyx train --dry-run: {dry.why()}"
    plan = next((line for line in dry.out.splitlines() if line.startswith("plan: ")), "no plan")
    check.say(f"W2 on the CPU: {plan[len('plan: '):]}")
    check.need_device()
    if machine.nvidia_smi() is None:
        raise check.Skip("there is no nvidia-smi to ask")
    machine.end_all()  # peers
    time.sleep(0.5)
    results = check.part["results"]
    for name, size in (("tiny", 1), ("W2", batch)):
        before = Memory()
        time.sleep(0.3)
        idle = before.end()
        if not before.seen:
            raise check.Skip("nvidia-smi doesn't say how much memory is taken")
        during = Memory()
        done = check.run([check.program("sardonyx"), "bench", model(check, *(["lenet"] if name == "tiny" else names)),
                          "--devices", "cuda:0", "--batch", size, "--steps", 20, "--repetitions", 1, "--json"], 60)
        most = during.end()
        assert done.ok, f"sardonyx bench: {done.why()}"
        results[name] = {"used_bytes": most - idle, "planned_bytes": last_json(done.out)["planned_bytes"]}
    used, planned = (results["W2"][key] - results["tiny"][key] for key in ("used_bytes", "planned_bytes"))
    check.say(f"W2 at batch {batch}: {planned >> 20} MiB planned, {used >> 20} MiB used beside the "
              f"{results['tiny']['used_bytes'] >> 20} MiB of CUDA itself")
    # A mebibyte is the least that nvidia-smi sees; the driver gives memory in pieces of two.
    assert used <= 1.05 * planned + (64 << 20), f"{used} bytes are used, {planned} were planned"
