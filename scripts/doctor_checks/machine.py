"""This machine: Docker and Compose, ports, disk, shared memory."""

from __future__ import annotations

import errno
import re
import shutil
import socket
from pathlib import Path

import requests

from doctor_checks.finding import Finding, not_applicable, passed, problem, warning
from doctor_checks.project import Project, ask, version_numbers

CHECK_DOCKER = "Docker and Compose"
CHECK_PORTS = "ports"
CHECK_DISK = "disk"
CHECK_SHM = "shared memory"

# The first Compose with !override and !reset, which compose.cpu.yml needs.
OLDEST_COMPOSE = (2, 24, 4)
PORTS = ("HTTP_PORT", "GRPC_PORT", "METRICS_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
# An FP32 model, its FP16 form while an engine is built, the plan, and room for one more version.
PROJECT_DISK_BYTES = 1 << 30
# NVIDIA gives about 9 GB of download and 16 GB on disk for tritonserver:YY.MM-py3.
IMAGE_DISK_BYTES = 25 * 10**9
# 8 MiB for each of six Python stubs, and as much again for a request being copied.
SHM_BYTES = 128 << 20
DOCKER_SHM_BYTES = 640 << 20
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_PROBE_TIMEOUT_S = 2.0


def check_docker(project: Project) -> list[Finding]:
    """Docker answers, and Compose is new enough for these files."""
    code, engine = ask("docker", "version", "--format", "{{.Server.Version}}")
    if code == 127:
        return [
            not_applicable(
                CHECK_DOCKER, "docker is not installed", "embedded mode needs none: make demo"
            )
        ]
    if code != 0:
        cause = f"Docker's engine does not answer: {engine.splitlines()[-1] if engine else code}"
        fix = "start it, or let your user talk to it (group docker)"
        return [problem(CHECK_DOCKER, cause, fix)]
    code, text = ask("docker", "compose", "version", "--short")
    compose = version_numbers(text)
    if code != 0 or not compose:
        fix = "install the Compose plugin; docker-compose 1.x does not read these files"
        return [problem(CHECK_DOCKER, "docker compose does not answer", fix)]
    if compose < OLDEST_COMPOSE:
        needed = ".".join(map(str, OLDEST_COMPOSE))
        cause = f"Compose {text} does not know !reset, which compose.cpu.yml uses"
        return [problem(CHECK_DOCKER, cause, f"update Compose to {needed} or newer")]
    return [passed(CHECK_DOCKER, f"Docker {engine}, Compose {text}")]


def check_ports(project: Project) -> list[Finding]:
    """Every published port is free, or held by this stack already."""
    address = project.settings.get("BIND_ADDRESS", "127.0.0.1")
    findings: list[Finding] = []
    seen: dict[str, str] = {}
    for name in PORTS:
        value = project.settings.get(name, "")
        if not value.isdigit() or not 0 < int(value) < 65536:
            fix = f"set {name} in .env to a number from 1 to 65535"
            findings.append(problem(CHECK_PORTS, f"{name} is {value!r}", fix))
            continue
        if value in seen:
            fix = "give each its own port in .env"
            findings.append(problem(CHECK_PORTS, f"{name} and {seen[value]} are both {value}", fix))
        seen[value] = name
        error = _bind_error(address, int(value))
        if error == errno.EADDRINUSE and not _is_ours(project, address, name):
            fix = f"stop what holds it (ss -ltnp 'sport = :{value}'), or set {name} in .env"
            cause = f"{name} {value} on {address} is taken by another program"
            findings.append(problem(CHECK_PORTS, cause, fix))
        elif error == errno.EADDRNOTAVAIL:
            return [problem(CHECK_PORTS, f"{address} is no address of this host", "BIND_ADDRESS")]
    return findings


def _bind_error(address: str, port: int) -> int | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno
    return None


def _is_ours(project: Project, address: str, name: str) -> bool:
    host = "127.0.0.1" if address == "0.0.0.0" else address
    # Triton's three ports are taken together; gRPC alone does not say who it is.
    port, path, words = {
        "PROMETHEUS_PORT": ("PROMETHEUS_PORT", "/-/ready", "Prometheus"),
        "GRAFANA_PORT": ("GRAFANA_PORT", "/api/health", "database"),
    }.get(name, ("HTTP_PORT", "/v2", "triton"))
    try:
        url = f"http://{host}:{project.settings[port]}{path}"
        return words in requests.get(url, timeout=_PROBE_TIMEOUT_S).text
    except requests.RequestException:
        return False


def check_disk(project: Project) -> list[Finding]:
    """Room for models here, and for images where Docker keeps them."""
    findings = []
    free = shutil.disk_usage(project.root).free
    if free < PROJECT_DISK_BYTES:
        cause = f"{free / 1e9:.1f} GB are free here; exporting needs {PROJECT_DISK_BYTES / 1e9:.1f}"
        findings.append(problem(CHECK_DISK, cause, "free some space on this filesystem"))
    code, docker_root = ask("docker", "info", "--format", "{{.DockerRootDir}}")
    _, images = ask("docker", "images", "-q", f"resnet50-triton/serving:{project.ngc_release}")
    if code == 0 and Path(docker_root).is_dir() and not images:
        free = shutil.disk_usage(docker_root).free
        if free < IMAGE_DISK_BYTES:
            cause = f"{free / 1e9:.0f} GB are free in {docker_root}; NVIDIA's image alone takes 16"
            findings.append(warning(CHECK_DISK, cause, "free space before docker compose build"))
    return findings


def check_shm(project: Project) -> list[Finding]:
    """Shared memory of embedded mode (/dev/shm) and of the triton service (SHM_SIZE)."""
    findings = []
    folder = Path("/dev/shm")
    if folder.is_dir() and shutil.disk_usage(folder).free < SHM_BYTES:
        free_mib = shutil.disk_usage(folder).free >> 20
        cause = f"/dev/shm has {free_mib} MiB free, embedded mode needs {SHM_BYTES >> 20}"
        fix = "remove what dead servers left there, or remount it larger"
        findings.append(problem(CHECK_SHM, cause, fix))
    size = project.settings.get("SHM_SIZE")
    if size:
        match = re.fullmatch(r"(\d+)([bkmg]?)b?", size.lower())
        if not match or int(match[1]) * _UNITS[match[2]] < DOCKER_SHM_BYTES:
            cause = f"SHM_SIZE is {size}: a full batch fails with 'Failed to increase the shared"
            fix = f"set SHM_SIZE to {DOCKER_SHM_BYTES >> 20}m or more (default 1g)"
            findings.append(problem(CHECK_SHM, f"{cause} memory pool size'", fix))
    return findings
