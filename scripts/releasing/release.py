"""One release at a time: the lock, the clean-up of what was interrupted, the way back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common import manifest
from engine import EnvironmentProblem
from releasing.journal import Journal, Unfinished
from releasing.progress import Report
from releasing.server import Server
from releasing.traffic import Traffic
from releasing.versions import INFERENCE, Versions


@dataclass
class Releaser:
    """Everything a release works on; ``started_s`` is when the user asked for it (Unix time)."""

    versions: Versions
    server: Server
    report: Report
    started_s: float

    def __post_init__(self) -> None:
        self.journal = Journal(self.versions)
        self.traffic = Traffic(self.server, self.versions)

    @contextlib.contextmanager
    def alone(self) -> Iterator[Path]:
        """Hold the repository, after cleaning up what an interrupted run left; a staging folder."""

        def refuse() -> None:
            raise EnvironmentProblem(
                f"another release or new_pipeline.py is at work on {self.versions.repository}: "
                "wait until it has finished"
            )

        with manifest.exclusive(self.versions.repository, on_wait=refuse):
            unfinished = self.journal.unfinished()
            if unfinished:
                self.report(f"cleaning up an interrupted {unfinished.action}")
                self.retreat(unfinished)
            root = self.versions.repository.parent
            with manifest.staging(self.versions.repository, root) as staging:
                yield staging

    def retreat(self, unfinished: Unfinished) -> None:
        """Serve the older release and take the newer one out, however far the switch had come.

        The server may be down: then it will start with the older release.
        """
        older, newer = unfinished.older, unfinished.newer
        try:
            could_serve = newer in self.traffic.loaded(INFERENCE)
        except EnvironmentProblem as error:
            self.report(f"only the files are cleaned up: {error}")
            self.versions.withdraw(newer, self.journal.parking)
        else:
            if could_serve and newer in self.versions.numbers(INFERENCE):
                self.traffic.hold(older, self.versions.release(newer))
                self.traffic.pin(older)
            self.versions.withdraw(newer, self.journal.parking)
            self.traffic.settle()
        self.journal.end()
        self.report(f"version {older.number} serves")


def times(releaser: Releaser) -> dict[str, float]:
    """Seconds from the command to the first checked answer, and how many of them were loading."""
    answering_s = time.time() - releaser.started_s
    return {
        "answering_s": round(answering_s, 1),
        "loading_s": round(releaser.server.loading_s, 1),
        "own_s": round(answering_s - releaser.server.loading_s, 1),
    }
