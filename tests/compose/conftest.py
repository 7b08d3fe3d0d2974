"""The private engine, the stand-in images and the running stack, each made once per test run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from compose_stack import HERE, PROJECT_ROOT, STEPS, Stack, copy_checkout, report

ENGINE_DIR = Path(os.environ.get("ENGINE_DIR", "/tmp/rtb-engine"))
CANNOT_RUN_HERE = 3


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How long the stack took to build, start and heal."""
    if STEPS:
        terminalreporter.section("compose stack", sep="-")
        terminalreporter.write_line("\n".join(STEPS))


def run_script(
    script: Path, *arguments: str, timeout_s: float = 400, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a shell script; skip the tests where it says that this machine cannot."""
    began_s = time.monotonic()
    done = subprocess.run(
        [script, *arguments],
        env={**os.environ, "ENGINE_DIR": str(ENGINE_DIR), **environment},
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    if done.returncode == CANNOT_RUN_HERE:
        pytest.skip(f"no private engine here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    report(f"{script.name} {' '.join(arguments)}", began_s)
    STEPS.extend(f"    {line}" for line in done.stderr.splitlines() if line.startswith("stand-ins"))
    return done


@pytest.fixture(scope="session")
def engine() -> Iterator[dict[str, str]]:
    """Environment variables of a running private engine, stopped again if it was started here."""
    script = HERE / "engine.sh"
    started_here = True
    try:
        started_here = "already up" not in run_script(script, "up").stderr
        exports = shlex.split(run_script(script, "env").stdout)[1:]
        yield dict(item.split("=", 1) for item in exports)
    finally:
        if started_here:
            run_script(script, "down")


@pytest.fixture(scope="session")
def project(engine: dict[str, str]) -> Iterator[Path]:
    """A copy of the checkout with secrets, in which tests may break things."""
    copy = ENGINE_DIR / "project"
    copy_checkout(copy)
    subprocess.run([sys.executable, copy / "scripts" / "create_secrets.py"], check=True)
    yield copy
    shutil.rmtree(copy)


@pytest.fixture(scope="session")
def stack(engine: dict[str, str], project: Path) -> Iterator[Stack]:
    """The whole stack, built and healthy."""
    made = Stack(engine, project)
    services = made.config()["services"]
    images = {
        "TRITON_IMAGE": services["triton"]["build"]["args"]["TRITON_IMAGE"],
        "PROMETHEUS_IMAGE": services["prometheus"]["image"],
        "GRAFANA_IMAGE": services["grafana"]["image"],
    }
    run_script(HERE / "standins" / "build.sh", **{**engine, **images})
    try:
        began_s = time.monotonic()
        made.build()
        report("docker compose build", began_s)
        began_s = time.monotonic()
        made.up()
        report("docker compose up --wait", began_s)
        yield made
    finally:
        made.compose("down", "--volumes", "--remove-orphans", "--timeout", "15", check=False)


@pytest.fixture(scope="session")
def photograph() -> bytes:
    """The bundled photograph of a cat, a JPEG file."""
    return (PROJECT_ROOT / "docs" / "pictures" / "cat.jpg").read_bytes()
