"""What happened to a pipeline's releases: records, the unfinished one, and a metric of the last.

All in ``.releases/`` beside the model repository: ``<pipeline>.jsonl``, one line per attempt;
``<pipeline>.unfinished.json`` while one is under way; ``<pipeline>.prom`` for node-exporter's
textfile collector.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine import EnvironmentProblem
from releasing.versions import Release, Versions

FOLDER = ".releases"


@dataclass(frozen=True)
class Unfinished:
    """A switch between two releases that has begun; ``older`` is what a clean-up returns to."""

    action: str
    older: Release
    newer: int


class Journal:
    """The records of one pipeline."""

    def __init__(self, versions: Versions) -> None:
        self.folder = versions.repository.parent / FOLDER
        self._pipeline = versions.pipeline
        self._unfinished = self.folder / f"{versions.pipeline}.unfinished.json"
        self._records = self.folder / f"{versions.pipeline}.jsonl"

    @property
    def parking(self) -> Path:
        """Where folders lie for the moment between leaving the repository and being deleted."""
        return self.folder / f"{self._pipeline}.withdrawn"

    def begin(self, unfinished: Unfinished) -> None:
        """Say what is about to change, before anything does."""
        self.folder.mkdir(exist_ok=True)
        _write(self._unfinished, json.dumps(asdict(unfinished)))

    def unfinished(self) -> Unfinished | None:
        """What an interrupted run left behind, if one did."""
        try:
            found = json.loads(self._unfinished.read_text(encoding="utf-8"))
            return Unfinished(found["action"], Release(**found["older"]), found["newer"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise EnvironmentProblem(
                f"{self._unfinished} is not readable: see with `publish.py versions` what is "
                "served, then remove the file"
            ) from None

    def end(self) -> None:
        """Nothing is under way any more."""
        self._unfinished.unlink(missing_ok=True)

    def record(self, is_good: bool, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Append one line and set the metric; the line."""
        now = time.time()
        line = {
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
            "pipeline": self._pipeline,
            **fields,
            "by": f"{getpass.getuser()}@{socket.gethostname()}",
        }
        self.folder.mkdir(exist_ok=True)
        with self._records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._write_metric(is_good, now)
        return line

    def lines(self) -> list[dict[str, Any]]:
        """Every record, oldest first; a line cut short by a full disk is left out."""
        try:
            texts = self._records.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        found = []
        for text in texts:
            try:
                found.append(json.loads(text))
            except ValueError:
                continue
        return found

    def used_numbers(self) -> set[int]:
        """Every version number that a release of this pipeline ever had."""
        unfinished = self.unfinished()
        used = {unfinished.newer} if unfinished else set()
        return used | {line["to"] for line in self.lines() if isinstance(line.get("to"), int)}

    def _write_metric(self, is_good: bool, now_s: float) -> None:
        lines = []
        for name, help_text, value in (
            ("success", "Whether the last release attempt succeeded.", int(is_good)),
            ("timestamp_seconds", "When the last release attempt ended.", round(now_s, 3)),
        ):
            metric = f"pipeline_release_{name}"
            lines += [
                f"# HELP {metric} {help_text}",
                f"# TYPE {metric} gauge",
                f'{metric}{{pipeline="{self._pipeline}"}} {value}',
            ]
        _write(self.folder / f"{self._pipeline}.prom", "\n".join(lines) + "\n")


def _write(path: Path, text: str) -> None:
    """By rename, so that nobody ever reads half of it; readable by the exporter's user."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.chmod(0o644)
    os.replace(partial, path)
