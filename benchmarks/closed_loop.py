"""Closed-loop load: a fixed number of clients, each asks again as soon as it is answered (wrk)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = Path(__file__).with_name("load.lua")
_TIMEOUT_S = 30
INSTALL_HINT = "wrk is missing, which makes the load: apt-get install wrk"


class LoadError(Exception):
    """The load could not be made, or the server failed under it; one line."""


@dataclass(frozen=True)
class Load:
    """What one run measured; latencies as the client saw them."""

    requests: int
    seconds: float
    failed: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


def check() -> None:
    """Raise LoadError where wrk is not installed."""
    if shutil.which("wrk") is None:
        raise LoadError(INSTALL_HINT)


def run(url: str, bodies: Sequence[Path], clients: int, seconds: float) -> Load:
    """POST the JSON bodies in turn for a while. Raises LoadError when any request fails."""
    command = [
        *("wrk", "--threads", "1", "--connections", str(clients)),
        *("--duration", f"{max(1, round(seconds))}s", "--timeout", f"{_TIMEOUT_S}s"),
        *("--latency", "--script", str(_SCRIPT), url, "--", "application/json"),
        *map(str, bodies),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise LoadError(f"wrk failed: {(done.stderr or done.stdout).strip()[-200:]}")
    load = Load(**json.loads(lines[-1]))
    if load.failed:
        raise LoadError(f"{url}: {load.failed} of {load.requests} requests failed")
    if not load.requests:
        raise LoadError(f"{url}: no answer within {seconds:g} s; is the machine busy?")
    return load
