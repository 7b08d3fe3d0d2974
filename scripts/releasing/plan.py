"""The candidate's TensorRT plan, built in the staging folder before anything else changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from engine import EnvironmentProblem
from engine.host import find_trtexec
from releasing import ReleaseRefused
from releasing.candidate import Staged

PROJECT_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = Path("scripts") / "build_engine.py"


def build(staged: Staged, pipeline: str) -> None:
    """Run build_engine.py on the staged version, here or in the export container."""
    command = [*_runner(), "--repository", _shown(staged.place), "--pipeline", pipeline]
    done = subprocess.run(command, cwd=PROJECT_ROOT, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise ReleaseRefused(
            f"no engine for these weights (build_engine.py ended with {done.returncode}): its "
            "message is above"
        )


def _runner() -> list[str]:
    if find_trtexec():
        return [sys.executable, str(_SCRIPT)]
    if shutil.which("docker"):
        compose = ["docker", "compose", "run", "--rm", "--no-deps", "export"]
        return [*compose, "python3", str(_SCRIPT)]
    raise EnvironmentProblem(
        "the server runs TensorRT plans, but there is neither trtexec nor docker here to build "
        "one: publish on the GPU host"
    )


def _shown(place: Path) -> str:
    # Relative to the project, which the container mounts elsewhere.
    return os.path.relpath(place, PROJECT_ROOT)
