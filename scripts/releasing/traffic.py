"""Which release a server's requests meet: pinned, side by side, switched, settled.

Everything here is a load with a configuration given along: no file changes, and a server that
restarts in between reads its files and serves the newest release of the repository.

Loading an ensemble also loads those of its steps whose files have changed, by the rules of their
files: the newest version alone. A version that lies on disk must therefore be held (or taken out)
before the ensemble is pinned to an older one, which would else find that one gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from releasing.server import Server, as_json
from releasing.versions import INFERENCE, POSTPROCESS, Release, Versions
from scaffold import configs

# A stub that compiles a fresh model.py once more needs a second load, never a third.
_QUIET_TRIES = 3
NEWEST = Release(-1, -1)


class Traffic:
    """The four models of one pipeline on one server."""

    def __init__(self, server: Server, versions: Versions) -> None:
        self._server = server
        self._versions = versions

    def loaded(self, stage: str) -> list[int]:
        """The versions of a stage that take requests."""
        return self._server.loaded(self._name(stage))

    def pin(self, release: Release) -> None:
        """Let the ensemble ask for exactly these versions, from the next request on."""
        # From its file: a server whose ensemble is gone has no configuration to give.
        file = self._versions.model("ensemble") / "config.pbtxt"
        config = as_json(configs.read_config(file))
        wanted = {self._name(INFERENCE): release.number, self._name(POSTPROCESS): release.labels}
        for step in config["ensemble_scheduling"]["step"]:
            # 64-bit numbers are texts in protobuf's JSON.
            step["model_version"] = str(wanted.get(step["model_name"], -1))
        self._server.load(file.parent.name, config)

    def hold(self, *releases: Release) -> None:
        """Load the versions of several releases side by side."""
        self._load_versions(INFERENCE, {release.number for release in releases})
        self._load_versions(POSTPROCESS, {release.labels for release in releases})

    def settle(self) -> None:
        """Back to what the files say: the newest version of each model, and no other.

        The preprocess model is loaded anew last: it publishes which build serves.
        """
        for stage in (INFERENCE, POSTPROCESS):
            config = self._server.config(self._name(stage))
            config["version_policy"] = {"latest": {"num_versions": 1}}
            self._server.load(self._name(stage), config)
        self.pin(NEWEST)
        folder = self._versions.model("preprocess")
        for version in folder.glob("[1-9]*"):
            os.utime(version)
        self._server.load(folder.name)

    def _load_versions(self, stage: str, numbers: Iterable[int]) -> None:
        wanted = sorted(numbers)
        if self.loaded(stage) == wanted:
            return
        config = self._server.config(self._name(stage))
        config["version_policy"] = {"specific": {"versions": [str(n) for n in wanted]}}
        # Files that change after a load (a stub that writes byte code) would make the ensemble's
        # next load bring this model back to its files, and with it drop the old version too early.
        for _ in range(_QUIET_TRIES):
            started = time.time()
            self._server.load(self._name(stage), config)
            if _newest_change_s(self._versions.model(stage)) < started:
                return

    def _name(self, stage: str) -> str:
        return self._versions.model(stage).name


def _newest_change_s(folder: Path) -> float:
    return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
