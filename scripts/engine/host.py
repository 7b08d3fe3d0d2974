"""What this host is: TensorRT version, GPUs and driver, each asked of NVIDIA's own tool."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine import EnvironmentProblem

# Where NGC's tritonserver and tensorrt images keep it, on PATH or not.
TRTEXEC_PLACES = (Path("/usr/src/tensorrt/bin/trtexec"), Path("/opt/tensorrt/bin/trtexec"))
_PROBE_TIMEOUT_S = 60
_GPU_QUERY = "name,compute_cap,driver_version"


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi names it; compute capability as in ``9.0``."""

    name: str
    compute_capability: str
    driver: str


@dataclass(frozen=True)
class Trtexec:
    """A trtexec binary: TensorRT version as in ``10.16.1``, and the options its help lists."""

    path: str
    version: str
    options: frozenset[str]

    @property
    def major(self) -> int:
        """TensorRT's major version."""
        return int(self.version.split(".", maxsplit=1)[0])


def find_trtexec() -> str | None:
    """Path of trtexec on PATH or in the NGC images' usual place; None where there is none."""
    found = shutil.which("trtexec")
    if found:
        return found
    return next((str(place) for place in TRTEXEC_PLACES if os.access(place, os.X_OK)), None)


def probe_trtexec(path: str | None = None) -> Trtexec:
    """Ask ``trtexec --help`` for its version and options; raises EnvironmentProblem."""
    path = path or find_trtexec()
    if path is None:
        raise EnvironmentProblem(
            "trtexec not found on PATH or in /usr/src/tensorrt/bin: build inside the export "
            "container (make export-trt)"
        )
    text = _output_of([path, "--help"])
    options = frozenset(re.findall(r"^\s*(--\w+)", text, re.MULTILINE))
    return Trtexec(path, _tensorrt_version(text), options)


def query_gpus() -> list[Gpu]:
    """Every GPU this process can see, in device order; raises EnvironmentProblem without one."""
    if shutil.which("nvidia-smi") is None:
        raise EnvironmentProblem(
            "nvidia-smi not found: no NVIDIA driver reaches this host or container (GPU host: "
            "install the NVIDIA Container Toolkit; no GPU: MODEL_CONFIG=cpu)"
        )
    text = _output_of(["nvidia-smi", f"--query-gpu={_GPU_QUERY}", "--format=csv,noheader"])
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line]
    gpus = [Gpu(*row) for row in rows if len(row) == 3 and re.match(r"\d+\.\d+$", row[1])]
    if not gpus:
        raise EnvironmentProblem(f"nvidia-smi names no GPU: {text.strip()[:200]}")
    return gpus


def driver_branch(driver: str) -> str:
    """The driver's release branch, as 580 of 580.95.05: within one, plans stay valid."""
    return driver.split(".", maxsplit=1)[0]


def _tensorrt_version(help_text: str) -> str:
    # "&&&& RUNNING TensorRT.trtexec [TensorRT v101601] # ...": NV_TENSORRT_VERSION, which is
    # major * 10000 + minor * 100 + patch since 10.0 and major * 1000 + minor * 100 + patch before.
    banner = re.search(r"\[TensorRT v(\d+)\]", help_text)
    if banner:
        number = int(banner.group(1))
        base = 10_000 if number >= 100_000 else 1_000
        return f"{number // base}.{number % base // 100}.{number % 100}"
    # NGC images carry the version of their TensorRT in the environment.
    named = re.match(r"\d+\.\d+\.\d+", os.environ.get("TRT_VERSION", ""))
    if named:
        return named.group(0)
    raise EnvironmentProblem(
        "trtexec --help does not name its TensorRT version: set TRT_VERSION, as in 10.16.1"
    )


def _output_of(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{command[0]} does not run: {error}") from error
    if done.returncode != 0:
        tail = " ".join(done.stdout.split())[-300:]
        raise EnvironmentProblem(f"{' '.join(command)} failed ({done.returncode}): {tail}")
    return done.stdout
