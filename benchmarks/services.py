"""Servers under test: started on free ports of the loopback address, stopped without a trace."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import requests

from benchmarks import pictures, process_tree
from benchmarks.closed_loop import LoadError
from benchmarks.repositories import PIPELINE, Variant, build
from embedded import EmbeddedServer
from embedded.preflight import HOST

PROJECT = Path(__file__).resolve().parents[1]
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Service:
    """Where a contender listens, and the roots of the process trees that do its work."""

    url: str
    pids: tuple[int, ...]


@contextlib.contextmanager
def tritonserver(variant: Variant, copies: int = 1) -> Iterator[EmbeddedServer]:
    """The real tritonserver on a repository of its own."""
    with tempfile.TemporaryDirectory(prefix="triton-bench-") as folder:
        repository = build(Path(folder) / "models", variant, copies)
        with contextlib.ExitStack() as running:
            with quiet():
                server = running.enter_context(EmbeddedServer(repository, start_timeout_s=180))
            yield server


def ensemble(server: EmbeddedServer) -> Service:
    """The ensemble's own HTTP address: base64 in JSON in, JSON out."""
    return Service(f"{server.http_url}/v2/models/{PIPELINE}_ensemble/generate", (server.pid,))


@contextlib.contextmanager
def uvicorn(
    app: str, settings: Mapping[str, str], workers: int = 1, beside: Sequence[int] = ()
) -> Iterator[Service]:
    """A FastAPI application of benchmarks.apps; ``beside`` are processes that work for it."""
    with tempfile.TemporaryFile() as log, _free_port() as port:
        command = [
            *(sys.executable, "-m", "uvicorn", f"benchmarks.apps.{app}:app"),
            *("--host", HOST, "--port", str(port), "--workers", str(workers)),
            *("--no-access-log", "--log-level", "warning"),
        ]
        path = os.pathsep.join([str(PROJECT), str(PROJECT / "scripts")])
        environment = {**os.environ, "PYTHONPATH": path, **settings}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            service = Service(f"http://{HOST}:{port}/predict", (process.pid, *beside))
            _wait_until_it_answers(service, process)
            yield service
        finally:
            _stop(process)


def bodies(size: str, images_per_request: int = 1, format_name: str = "jpeg") -> list[bytes]:
    """JSON bodies that every contender takes, one per photograph."""
    texts = [base64.b64encode(f).decode() for f in pictures.picture_set(size, format_name).files]
    if images_per_request == 1:
        return [json.dumps({"RAW_IMAGE": text}).encode() for text in texts]
    batches = [
        [texts[(start + i) % len(texts)] for i in range(images_per_request)]
        for start in range(len(texts))
    ]
    return [json.dumps({"RAW_IMAGE": batch}).encode() for batch in batches]


def check_answer(service: Service, body: bytes) -> None:
    """Raise LoadError unless the service classifies this picture."""
    answer = requests.post(
        service.url, data=body, headers={"Content-Type": "application/json"}, timeout=60
    )
    if answer.status_code != 200 or "predictions" not in answer.text:
        raise LoadError(f"{service.url} answers {answer.status_code}: {answer.text[:200]}")


@contextlib.contextmanager
def _free_port() -> Iterator[int]:
    import socket

    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    yield port


def _wait_until_it_answers(service: Service, process: subprocess.Popen[bytes]) -> None:
    body = bodies("in500")[0]
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        with contextlib.suppress(requests.ConnectionError):
            check_answer(service, body)
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise LoadError(f"uvicorn did not start, exit code {process.poll()}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    family = list(process_tree.processes(process.pid))
    process.terminate()
    _, alive = psutil.wait_procs(family, timeout=_STOP_TIMEOUT_S)
    for each in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The launcher's progress lines would drown the bench's own."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        yield
