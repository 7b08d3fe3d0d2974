"""A served small pipeline and the release tool pointed at it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
from small_pipeline import ENSEMBLE, PROJECT, body, jpeg, make_repository, results, text

import publish
from embedded import EmbeddedServer

PICTURE = text(jpeg((200, 60, 20)))


@dataclass(frozen=True)
class Stage:
    """A server, its repository, and the options that lead the tool there."""

    server: EmbeddedServer
    folder: Path
    options: tuple[str, ...]

    @property
    def repository(self) -> Path:
        return self.folder / "models"

    def command(self, name: str, *arguments: object) -> list[str]:
        return [name, *self.options, *map(str, arguments)]

    def run(self, name: str, *arguments: object) -> int:
        """In this process, which saves the seconds of starting one; the exit code."""
        return publish.main(self.command(name, *arguments))

    def process(self, name: str, *arguments: object) -> subprocess.Popen[str]:
        """As a process of its own, from a folder that is not the project's."""
        script = PROJECT / "scripts" / "publish.py"
        return subprocess.Popen(
            [sys.executable, str(script), *self.command(name, *arguments)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def versions(self, stage: str) -> list[int]:
        """On disk."""
        folder = self.repository / f"resnet50_{stage}"
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())

    def loaded(self, stage: str) -> list[int]:
        """On the server, READY."""
        url = f"{self.server.http_url}/v2/repository/index"
        answer = requests.post(url, json={}, headers=self.server.admin_headers, timeout=10)
        return sorted(
            int(entry["version"])
            for entry in answer.json()
            if entry["name"] == f"resnet50_{stage}" and entry.get("state") == "READY"
        )

    def best(self) -> tuple[int, str]:
        """Class id and label of one fixed picture."""
        url = f"{self.server.http_url}/v2/models/{ENSEMBLE}/infer"
        answer = requests.post(url, json=body([PICTURE], top_k=1), timeout=30)
        assert answer.status_code == 200, answer.text
        (result,) = results(answer.json())
        (prediction,) = result["predictions"]
        return prediction["class_id"], prediction["class"]


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """The small pipeline, served as version 1."""
    with EmbeddedServer(make_repository(folder / "models")) as server:
        key = folder / "key"
        key.write_text(server.admin_key)
        repository = ("--repository", str(server.model_repository))
        where = ("--grpc-url", server.grpc_address, "--key-file", str(key))
        yield Stage(server, folder, (*repository, *where))
