"""On a host with an NVIDIA GPU and the stack up: everything that a CPU cannot prove."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _why_not() -> str:
    if shutil.which("nvidia-smi") is None:
        return "no nvidia-smi: this host has no NVIDIA driver"
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 and "GPU 0" in done.stdout else "nvidia-smi lists no GPU"


REASON = _why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def script(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / name), *options],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_running_stack_serves_a_verified_engine() -> None:
    done = script("verify_gpu.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_doctor_finds_no_problem() -> None:
    done = script("doctor.py")
    assert done.returncode == 0, done.stdout + done.stderr
