"""Numbered steps with their seconds, on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

Report = Callable[[str], None]


def say(text: str) -> None:
    """One line for people, on stderr, whatever that can write."""
    encoding = sys.stderr.encoding or "ascii"
    line = f"publish: {text}".encode(encoding, "replace").decode(encoding)
    print(line, file=sys.stderr, flush=True)


class Steps:
    """``[2/7] name ...`` when a step begins, ``[2/7] name: outcome, 1.2 s`` when it is done."""

    def __init__(self, total: int, report: Report) -> None:
        self._total = total
        self._report = report
        self._number = 0
        self.current = ""

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Time the block; what it appends to the yielded list is reported as its outcome."""
        self._number += 1
        self.current = name
        label = f"[{self._number}/{self._total}] {name}"
        self._report(f"{label} ...")
        started = time.perf_counter()
        outcome: list[str] = []
        yield outcome
        took = f"{time.perf_counter() - started:.1f} s"
        self._report(f"{label}: {', '.join([*outcome, took])}")
