"""The server's log: which lines mean something, and a copy of those for a person to read."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

# What a server without a GPU always says, and what nobody needs on the CPU.
_GPU_NOISE = re.compile(
    r"pinned_memory_manager|cuda_memory_manager|CudaDriverHelper|CUDA driver version|NVML|DCGM"
)
# The head of a record in --log-format=ISO8601: 2026-01-31T12:00:00Z E 4711 server.cc:305]
_RECORD = re.compile(r"\d{4}-\d\d-\d\dT\S+ (?P<severity>[IWEF]) \d+ \S+\] ?(?P<text>.*)")
_FOLLOW_INTERVAL_S = 0.2


def meaningful_lines(lines: Iterable[str]) -> list[str]:
    """Return `lines` without GPU noise, empty records and the tables that follow them."""
    return [line for line in map(str.rstrip, lines) if _is_meaningful(line)]


def _is_meaningful(line: str) -> bool:
    if not line or line[0] in "+|" or _GPU_NOISE.search(line):
        return False
    record = _RECORD.search(line)
    return record is None or bool(record["text"])


def last_errors(log: Path, count: int = 15) -> list[str]:
    """Return the last `count` lines of error records, or of everything where there is none.

    Lines without a record's head belong to the record before them, as a traceback does.
    """
    lines = meaningful_lines(log.read_text(encoding="utf-8", errors="replace").splitlines())
    errors = []
    is_error = True
    for line in lines:
        record = _RECORD.search(line)
        if record:
            is_error = record["severity"] in "EF"
        if is_error:
            errors.append(record["text"] if record else line)
    return (errors or lines)[-count:]


class LogFollower:
    """Copies the meaningful lines of a growing log to a stream until it is closed."""

    def __init__(self, log: Path, stream: TextIO) -> None:
        self._log = log
        self._stream = stream
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="server-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Copy what is left and stop."""
        self._closed.set()
        self._thread.join()

    def _follow(self) -> None:
        rest = ""
        with self._log.open(encoding="utf-8", errors="replace") as file:
            while True:
                last_round = self._closed.wait(_FOLLOW_INTERVAL_S)
                *lines, rest = (rest + file.read()).split("\n")
                for line in meaningful_lines(lines):
                    print(line, file=self._stream, flush=True)
                if last_round:
                    return
