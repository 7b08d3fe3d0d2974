"""The stack under test: a copy of the checkout, run by the private engine on free local ports."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

PROJECT_ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
CONTAINER_UID = 1000
STUB_COMMAND = "triton_python_backend_stub"
PORT_VARIABLES = ("HTTP_PORT", "GRPC_PORT", "METRICS_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
STEPS: list[str] = []


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for opened in sockets:
        opened.close()
    return ports


def report(what: str, began_s: float) -> None:
    """Note how long a step took; conftest.py prints them all at the end."""
    STEPS.append(f"{what}: {time.monotonic() - began_s:.0f} s")


def copy_checkout(target: Path) -> None:
    """Copy what git tracks or would track, owned by the containers' uid."""
    shutil.rmtree(target, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT_ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (PROJECT_ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT_ROOT / name, target / name)
    give_to_containers(target)


def give_to_containers(folder: Path) -> None:
    """What this test run's user wrote becomes the containers' own, as on a user's host."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, CONTAINER_UID, CONTAINER_UID)


def wait_until(condition: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """The first true answer of `condition`; AssertionError after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        if answer := condition():
            return answer
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.3)


class Stack:
    """Runs Compose on the copy and looks at its containers."""

    def __init__(self, engine_environment: dict[str, str], project: Path) -> None:
        self.project = project
        self.ports = dict(zip(PORT_VARIABLES, free_ports(len(PORT_VARIABLES)), strict=True))
        self.environment = {
            **os.environ,
            **engine_environment,
            **{name: str(port) for name, port in self.ports.items()},
            "COMPOSE_FILE": "docker-compose.yml:compose.cpu.yml:tests/compose/ci.yml",
            "COMPOSE_PROJECT_NAME": "rtb-test",
            "COMPOSE_ANSI": "never",
            "COMPOSE_PROGRESS": "plain",
            "BUNDLE_UID": str(CONTAINER_UID),
            "BUNDLE_GID": str(CONTAINER_UID),
            "WEIGHTS": "random:0",
            "TEST_PYTHON_HOME": sys.base_prefix,
            "TEST_SITE_PACKAGES": sysconfig.get_paths()["purelib"],
        }

    def run(
        self, *command: str, timeout_s: float = 60, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the copy with the engine's environment."""
        done = subprocess.run(
            command,
            cwd=self.project,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            output = f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
            raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{output}")
        return done

    def compose(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """docker compose …"""
        return self.run("docker", "compose", *arguments, **options)

    def build(self) -> None:
        """Build both images, export's without PyTorch: ci.yml mounts an interpreter that has it."""
        light = ("--build-arg", "EXTRAS=", "--build-arg", "TORCH_INDEX_URL=")
        self.compose("build", "--quiet", *light, timeout_s=300)

    def up(
        self, *services: str, check: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """docker compose up, waiting until everything is healthy; a failure shows the logs."""
        options.setdefault("timeout_s", 200)
        arguments = ("up", "-d", "--wait", "--wait-timeout", "150", *services)
        done = self.compose(*arguments, check=False, **options)
        if check and done.returncode:
            logs = self.compose("logs", "--no-color", "--tail", "25", check=False)
            raise AssertionError(f"{done.stderr[-2000:]}\n{logs.stdout}{logs.stderr}")
        return done

    def config(self) -> dict[str, Any]:
        """The files as Compose understands them."""
        return json.loads(self.compose("config", "--format", "json").stdout)

    def inspect(self, service: str) -> dict[str, Any]:
        """docker inspect of the service's container, running or not."""
        identity = self.compose("ps", "-aq", service).stdout.strip()
        return json.loads(self.run("docker", "inspect", identity).stdout)[0]

    def exec(self, service: str, *command: str, check: bool = True) -> str:
        """Output of a command run in the service's container."""
        return self.compose("exec", "-T", service, *command, check=check).stdout

    def logs(self, service: str, since: str | None = None) -> str:
        """Both streams of a service's log."""
        window = ("--since", since) if since else ()
        done = self.compose("logs", "--no-color", "--no-log-prefix", *window, service)
        return done.stdout + done.stderr

    def processes(self, service: str) -> dict[int, str]:
        """Command lines in the container, by pid on this host."""
        identity = self.compose("ps", "-q", service).stdout.strip()
        done = self.run("docker", "top", identity, "-eo", "pid,args", check=False)
        rows = (line.strip().partition(" ") for line in done.stdout.splitlines()[1:])
        return {int(pid): arguments for pid, _, arguments in rows}

    def stubs(self, model: str = "") -> list[int]:
        """Pids of the Python stubs, of one model or of all."""
        return [
            pid
            for pid, line in self.processes("triton").items()
            if STUB_COMMAND in line and line.strip().startswith("/opt") and model in line
        ]

    def restarts(self, service: str = "triton") -> int:
        """How often the restart policy has started the container again."""
        return int(self.inspect(service)["RestartCount"])

    def url(self, variable: str, path: str = "") -> str:
        """Address of a published port."""
        return f"http://127.0.0.1:{self.ports[variable]}{path}"

    def secret(self, name: str) -> str:
        """A secret's text."""
        return (self.project / "secrets" / name).read_text().strip()

    def infer(self, *images: bytes, timeout_s: float = 10) -> requests.Response:
        """Send images as one batch to the ensemble."""
        data = [base64.b64encode(image).decode() for image in images]
        raw = {"name": "RAW_IMAGE", "datatype": "BYTES", "shape": [len(data), 1], "data": data}
        url = self.url("HTTP_PORT", "/v2/models/resnet50_ensemble/infer")
        return requests.post(url, json={"inputs": [raw]}, timeout=timeout_s)

    def classify(self, *images: bytes) -> list[dict[str, Any]]:
        """The results of a batch that must be answered with 200."""
        reply = self.infer(*images, timeout_s=60)
        assert reply.status_code == 200, reply.text[:500]
        return [json.loads(text) for text in reply.json()["outputs"][0]["data"]]

    def is_serving(self, image: bytes) -> bool:
        """Whether Docker calls Triton healthy and three requests in a row are answered."""
        if self.inspect("triton")["State"].get("Health", {}).get("Status") != "healthy":
            return False
        try:
            return all(self.infer(image, timeout_s=3).status_code == 200 for _ in range(3))
        except requests.RequestException:
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of a PromQL expression; empty while Prometheus is away."""
        try:
            reply = requests.get(
                self.url("PROMETHEUS_PORT", "/api/v1/query"),
                params={"query": expression},
                timeout=5,
            )
        except requests.RequestException:
            return []
        return list(reply.json()["data"]["result"]) if reply.ok else []
