"""Checks made before the server starts, so that a failure names its cause and its fix."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from embedded.errors import PreflightError
from embedded.layout import (
    INSTALL_HINT,
    PYTHON_VERSION,
    libpython_folder,
    stub_file,
)
from embedded.repository import RepositoryModel

HOST = "127.0.0.1"
MAXIMUM_PORT = 65535
# The wheel is built on Ubuntu 22.04.
MINIMUM_GLIBC = (2, 35)
# numpy 1.26, the last that the Python backend takes, has wheels for these.
PYTHON_VERSIONS = ("3.10", "3.11", "3.12")

# Run as the stub runs: isolated, outside the project's folder.
_PROBE = """
import importlib.util, importlib.metadata, json
def version(name):
    try: return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError: return None
print(json.dumps({"common": importlib.util.find_spec("common") is not None,
                  "numpy": version("numpy"), "onnxruntime": version("onnxruntime")}))
"""


def check_machine() -> None:
    """Raise PreflightError unless this machine and this Python can run the wheel's server."""
    check_glibc(os.confstr("CS_GNU_LIBC_VERSION") if sys.platform == "linux" else None)
    if PYTHON_VERSION not in PYTHON_VERSIONS:
        raise PreflightError(
            f"Python {PYTHON_VERSION} cannot serve: use one of {', '.join(PYTHON_VERSIONS)}"
        )
    stub_file()
    libpython_folder()
    probe = [sys.executable, "-I", "-c", _PROBE]
    found = subprocess.run(probe, capture_output=True, text=True, cwd="/", check=True)
    check_packages(json.loads(found.stdout))


def check_glibc(version: str | None) -> None:
    """`version` is the C library's own name for itself, such as "glibc 2.36"."""
    name, _, number = (version or "").partition(" ")
    if name != "glibc" or tuple(int(part) for part in number.split(".")[:2]) < MINIMUM_GLIBC:
        wanted = ".".join(map(str, MINIMUM_GLIBC))
        raise PreflightError(
            f"tritonserver needs Linux with glibc >= {wanted}, this is {version or sys.platform}: "
            "use the Compose stack"
        )


def check_packages(found: Mapping[str, object]) -> None:
    """`found` says what an isolated Python sees: {"common": bool, "numpy": version or None, …}."""
    if not found["common"]:
        raise PreflightError(
            f"the package `common` is not installed, and models ignore PYTHONPATH: {INSTALL_HINT}"
        )
    numpy = found["numpy"]
    if numpy is None or int(str(numpy).partition(".")[0]) >= 2:
        raise PreflightError(
            f"numpy {numpy or 'is missing'}: models would load and their first request end "
            f"the process; the Python backend needs numpy < 2: {INSTALL_HINT}"
        )
    if found["onnxruntime"] is None:
        raise PreflightError(f"onnxruntime is not installed: {INSTALL_HINT}")


def check_ports(ports: Mapping[str, int]) -> None:
    """Raise PreflightError when a port (by name: http, grpc, metrics) is taken or named twice."""
    for name, port in ports.items():
        twin = next((other for other in ports if other != name and ports[other] == port), None)
        if twin:
            raise PreflightError(f"{name} and {twin} both want port {port}: give each its own")
        if not 0 < port <= MAXIMUM_PORT:
            raise PreflightError(f"{name} port {port}: allowed is 0 (a free one) to {MAXIMUM_PORT}")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                raise PreflightError(
                    f"{name} port {port} on {HOST} cannot be used ({error.strerror}): "
                    f"stop what holds it, or set {name.upper()}_PORT"
                ) from None


def free_ports(count: int) -> list[int]:
    """Return `count` different ports of the loopback address that nobody holds now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def check_model_files(models: Iterable[RepositoryModel]) -> None:
    """Raise PreflightError when a model that ONNX Runtime serves has no ONNX file."""
    for model in models:
        missing = model.missing_model_file()
        if missing:
            raise PreflightError(f"{missing} is missing: run `make export-onnx`")


def check_log(log: Path) -> None:
    """Raise PreflightError when the server's log cannot be written."""
    try:
        log.open("ab").close()
    except OSError as error:
        raise PreflightError(f"cannot write the log {log}: {error.strerror}") from None
