"""Steps with their seconds on stderr, and the export scripts as steps."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[1]


class DemoError(Exception):
    """The demo cannot go on; one line with cause and fix. ``exit_code``: 1 wrong answer, else 2."""

    def __init__(self, text: str, exit_code: int = 2) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Steps:
    """Numbers the steps: ``[2/7] name ...`` at first, ``[2/7] name: outcome, 1.2 s`` after."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Time the block; what it appends to the yielded list is reported as its outcome."""
        self._number += 1
        label = f"[{self._number}/{self._total}] {name}"
        say(f"{label} ...")
        started = time.perf_counter()
        outcome: list[str] = []
        yield outcome
        took = f"{time.perf_counter() - started:.1f} s"
        say(f"{label}: {', '.join([*outcome, took])}")


def run_script(name: str, *arguments: str) -> dict[str, Any]:
    """Run a script of this bundle for its JSON answer; its own lines go to stderr. DemoError.

    A process of its own: what an export loads does not stay in memory beside the server.
    """
    command = [sys.executable, str(SCRIPTS / name), *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise DemoError(f"{name} failed, exit code {done.returncode}: its message is above")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def say(text: str) -> None:
    """One line for people, on stderr, whatever that can write."""
    encoding = sys.stderr.encoding or "ascii"
    line = f"demo: {text}".encode(encoding, "replace").decode(encoding)
    print(line, file=sys.stderr, flush=True)
