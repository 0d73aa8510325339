"""What there is on this machine: programs to check, libraries of CUDA, the driver; and running a program with a limit."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = ("libcudnn.so.9", "libcublasLt.so.13", "libcublasLt.so.12", "libnccl.so.2", "libnvrtc.so.13",
             "libnvrtc.so.12")
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                  "/usr/lib/wsl/lib")


def library_folders() -> list[Path]:
    """Folders with libraries of CUDA: Python packages (nvidia/cudnn/lib, nvidia/cu13/lib, ...), then toolkits."""
    folders = []
    for entry in filter(None, sys.path):
        folders += sorted(Path(entry).glob("nvidia/*/lib"))
        folders += sorted(Path(entry).glob("torch/lib"))
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    folders += [Path(toolkit) / "lib64", Path(toolkit) / "targets/x86_64-linux/lib"]
    return [folder for folder in folders if any((folder / name).exists() for name in LIBRARIES)]


def driver_folders() -> list[Path]:
    """Where the driver's libcuda.so.1 lies, if the dynamic linker doesn't look there."""
    try:
        ctypes.CDLL("libcuda.so.1")
        return []
    except OSError:
        pass
    return [Path(folder) for folder in DRIVER_FOLDERS if (Path(folder) / "libcuda.so.1").exists()]


def nvidia_smi() -> str | None:
    return shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path="/usr/local/nvidia/bin:/usr/lib/wsl/lib")


def environment() -> dict:
    """That of our programs; PyTorch finds its libraries itself."""
    folders = library_folders()
    env = dict(os.environ)
    old = [folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder]
    env["LD_LIBRARY_PATH"] = ":".join([*old, *map(str, folders), *map(str, driver_folders())])
    given = env.get("SARDONYX_CUDA_LIBRARIES", "")
    env["SARDONYX_CUDA_LIBRARIES"] = ":".join(filter(None, [given, *map(str, folders)]))
    return env


@dataclass
class Programs:
    """None: not there."""

    sardonyx: Path | None
    cuda_device_tests: Path | None
    run_cases: Path | None
    fixtures: Path | None
    source: Path | None  # of run_cases: the folder with tests/known_limits.txt

    @staticmethod
    def find(build: str | None) -> "Programs":
        root = HERE.parent
        if build is None and (root / "bin").is_dir():
            return Programs(*(existing(root / "bin" / name) for name in Programs.names()),
                            existing(root / "fixtures"), root)
        checkout = root.parent
        folder = Path(build) if build is not None else checkout / "build/release"
        shared = Path(os.environ.get("SARDONYX_SHARED", checkout.parent / "shared"))
        places = ("tools/sardonyx", "tests/cuda_native/cuda_device_tests", "tests/run_cases")
        return Programs(*(existing(folder.resolve() / place) for place in places), existing(shared / "fixtures"), None)

    @staticmethod
    def names() -> tuple:
        return ("sardonyx", "cuda_device_tests", "run_cases")


def existing(path: Path) -> Path | None:
    return path if path.exists() else None


@dataclass
class Done:
    command: list
    status: int | None  # None: it took too long and was ended
    out: str
    err: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.status == 0

    def why(self) -> str:
        """Why it failed, with begin and end of what it said."""
        said = self.err.strip() or self.out.strip()
        if len(said) > 700:
            said = said[:350] + " ... " + said[-350:]
        if self.status is None:
            return f"took more than {self.seconds:.0f} s; {said}"
        what = f"signal {-self.status}" if self.status < 0 else f"status {self.status}"
        return f"{what}; {said}"


def end(process: subprocess.Popen) -> None:
    """With everything that it started. One that is over is left alone: its number may be another's by now."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    running.discard(process)


running = set()  # what must not outlive us


def start(command: list, **more) -> subprocess.Popen:
    """In a group of its own, so that it can be ended with everything that it starts."""
    process = subprocess.Popen([str(word) for word in command], text=True, errors="replace", start_new_session=True, **more)
    running.add(process)
    return process


def end_all() -> None:
    for process in list(running):
        end(process)


def run(command: list, limit: float, env: dict | None = None) -> Done:
    begin = time.monotonic()
    words = [str(word) for word in command]
    try:
        process = start(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    except OSError as error:
        return Done(words, 127, "", str(error), 0)
    try:
        out, err = process.communicate(timeout=max(limit, 1))
        status = process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        status = None
    running.discard(process)
    return Done(words, status, out, err, time.monotonic() - begin)
