"""scripts/build_engine.py on a full disk, stopped or killed: never half a plan, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from engine_standins import Host, run

pytest_plugins = ["engine_standins.fixtures"]

ROOT = Path(__file__).resolve().parents[2]


def process(folder: Path, *prefix: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *prefix,
            sys.executable,
            str(ROOT / "scripts" / "build_engine.py"),
            "--repository",
            str(folder.parents[1]),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_disk_that_takes_no_more_is_one_line_and_publishes_nothing(
    host: Host, folder: Path
) -> None:
    # A file-size limit of 100 KiB fails the FP16 graph's 400 kB as a full disk would.
    started = process(folder, "bash", "-c", 'ulimit -f 100; exec "$@"', "bash")
    _, error = started.communicate(timeout=60)
    assert started.returncode == 2
    assert "cannot write" in error
    assert "Traceback" not in error
    assert not (folder / "model.plan").exists()


def stop_midway(host: Host, folder: Path, signal_number: int) -> subprocess.Popen[str]:
    host.set(hangs=True)
    started = process(folder)
    deadline = time.monotonic() + 30
    while not (host.bin / "hanging").exists():
        assert started.poll() is None, started.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    started.send_signal(signal_number)
    started.wait(timeout=30)
    return started


def test_a_build_that_is_stopped_takes_trtexec_along_and_leaves_nothing(
    host: Host, folder: Path
) -> None:
    started = stop_midway(host, folder, signal.SIGTERM)
    assert started.returncode == 128 + signal.SIGTERM
    (command,) = host.calls("--saveEngine")
    plan = Path(next(part for part in command if part.startswith("--saveEngine=")).split("=")[1])
    assert not plan.parent.exists()
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "model.onnx"]
    assert not running_with(str(plan))


def test_a_build_that_is_killed_leaves_no_half_plan_and_the_next_one_succeeds(
    host: Host, folder: Path
) -> None:
    stop_midway(host, folder, signal.SIGKILL)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "model.onnx"]
    for pid in running_with(str(host.bin / "trtexec")):
        os.kill(pid, signal.SIGKILL)
    host.set(hangs=False)
    assert run(folder) == 0
    assert run(folder, "--check") == 0


def running_with(text: str) -> list[int]:
    """Processes whose command line holds a text."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found
