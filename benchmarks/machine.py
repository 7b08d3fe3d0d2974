"""What the figures were measured on, and with which versions."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from common.preprocess.preprocessor import available_cores

_PACKAGES = (
    *("numpy", "pillow", "cykooz-resizer", "pybase64", "onnxruntime", "nvidia-pytriton"),
    *("torch", "torchvision", "opencv-python-headless", "simplejpeg", "fastapi", "uvicorn"),
)
_PROJECT = Path(__file__).resolve().parents[1]


def describe() -> dict[str, Any]:
    """CPU, cores, memory, load, versions and the commit."""
    return {
        "measured_on": datetime.now(timezone.utc).date().isoformat(),
        "cpu": _cpu_model(),
        "cores": available_cores(),
        "memory_GB": round(psutil.virtual_memory().total / 1e9),
        "load_before": round(os.getloadavg()[0], 1),
        "nice": os.nice(0),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "commit": _commit(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
