"""The command lines of the measuring scripts: help with an example, refusals in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bench_docs
from benchmarks.results import BENCH, DOCUMENT

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
NAMES = ("bench", "bench_preprocess", "bench_compare", "bench_docs", "parity", "plan_capacity")


@pytest.mark.parametrize("name", NAMES)
def test_the_help_ends_with_an_example(name: str) -> None:
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"python scripts/{name}.py" in shown.partition("example:")[2]


def test_bench_without_its_load_generator_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "bench.py"), "--output", str(tmp_path / "out.json")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": ""}, check=False
    )
    assert done.returncode == 2
    assert "apt-get install wrk" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["", "{", json.dumps({"machine": {}})])
def test_results_that_lack_something_change_nothing(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "bench.json"
    given.write_text(content)
    before = [path.read_bytes() for path in (BENCH, DOCUMENT)]
    assert bench_docs.main(["--results", str(given)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert [path.read_bytes() for path in (BENCH, DOCUMENT)] == before
