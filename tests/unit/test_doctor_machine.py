"""The doctor's look at this machine: ports, disk, shared memory, secrets, permissions."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_standins import docker, look, ports

from doctor_checks import files, machine
from doctor_checks.finding import Status
from doctor_checks.project import Project
from embedded.preflight import free_ports

pytestmark = pytest.mark.usefixtures("tools")
pytest_plugins = ["doctor_fixtures"]

ROOT = Path(__file__).resolve().parents[2]


def test_free_ports_are_well(checkout: Path) -> None:
    assert machine.check_ports(Project.load(checkout, ports())) == []


def test_a_port_of_another_program_is_a_problem(checkout: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        finding = look(machine.check_ports, checkout, **ports(GRPC_PORT=taken))
    assert finding.status is Status.PROBLEM
    assert f"GRPC_PORT {taken} on 127.0.0.1 is taken" in finding.detail
    assert "set GRPC_PORT in .env" in finding.fix


@pytest.fixture
def triton_port() -> Iterator[int]:
    """A web server that answers /v2 as Triton does."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"name": "triton", "version": "2.69.0"}')

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_a_port_that_this_stack_holds_is_well(checkout: Path, triton_port: int) -> None:
    assert machine.check_ports(Project.load(checkout, ports(HTTP_PORT=triton_port))) == []


def test_two_services_on_one_port_are_a_problem(checkout: Path) -> None:
    (port,) = free_ports(1)
    finding = look(machine.check_ports, checkout, **ports(HTTP_PORT=port, GRPC_PORT=port))
    assert f"GRPC_PORT and HTTP_PORT are both {port}" in finding.detail


def test_a_port_that_is_no_number_is_a_problem(checkout: Path) -> None:
    environ = {**ports(), "GRAFANA_PORT": "three"}
    assert "GRAFANA_PORT is 'three'" in look(machine.check_ports, checkout, **environ).detail


def test_an_address_of_another_host_is_a_problem(checkout: Path) -> None:
    finding = look(machine.check_ports, checkout, **ports(), BIND_ADDRESS="192.0.2.1")
    assert "no address of this host" in finding.detail


def test_a_full_disk_is_a_problem(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=200_000_000)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage)
    assert "0.2 GB are free" in look(machine.check_disk, checkout).detail


def test_little_room_for_images_is_a_warning_until_they_are_built(
    tools: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=5 * 10**9)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage)
    docker(tools, images="")
    assert look(machine.check_disk, checkout).status is Status.WARNING
    docker(tools, images="0123abcd")
    assert machine.check_disk(Project.load(checkout, {})) == []


@pytest.mark.parametrize(
    ("size", "fits"), [("1g", True), ("640m", True), ("64m", False), ("many", False)]
)
def test_the_containers_shared_memory_must_hold_a_full_batch(
    size: str, fits: bool, checkout: Path
) -> None:
    (checkout / ".env").write_text(f"SHM_SIZE={size}\n")
    assert (machine.check_shm(Project.load(checkout, {})) == []) is fits


def secrets(checkout: Path) -> Path:
    folder = checkout / "secrets"
    subprocess.run(
        [sys.executable, str(ROOT / "scripts/create_secrets.py"), "--folder", str(folder)],
        check=True,
        capture_output=True,
    )
    return folder


def test_what_make_secrets_writes_is_well(tools: Path, checkout: Path) -> None:
    docker(tools)
    secrets(checkout)
    assert files.check_secrets(Project.load(checkout, {})) == []


def test_without_docker_secrets_do_not_matter(checkout: Path) -> None:
    assert look(files.check_secrets, checkout).status is Status.NOT_APPLICABLE


def test_missing_secrets_are_named(tools: Path, checkout: Path) -> None:
    docker(tools)
    found = files.check_secrets(Project.load(checkout, {}))
    assert [finding.detail for finding in found] == [
        "secrets/triton_admin_key is missing",
        "secrets/grafana_admin_password is missing",
    ]
    assert {finding.fix for finding in found} == {"make secrets"}


def test_a_secret_that_grafana_cannot_read_is_found(tools: Path, checkout: Path) -> None:
    docker(tools)
    (secrets(checkout) / "grafana_admin_password").chmod(0o600)
    assert "uid 472 in the container cannot read it" in look(files.check_secrets, checkout).detail


def test_a_short_admin_key_is_found(tools: Path, checkout: Path) -> None:
    docker(tools)
    key = secrets(checkout) / "triton_admin_key"
    key.chmod(0o644)
    key.write_text("short\n")
    assert "fewer than 32 characters" in look(files.check_secrets, checkout).detail


def test_a_folder_that_docker_made_for_a_missing_secret_is_found(
    tools: Path, checkout: Path
) -> None:
    docker(tools)
    key = secrets(checkout) / "triton_admin_key"
    key.unlink()
    key.mkdir()
    assert "is a folder, which Docker made" in look(files.check_secrets, checkout).detail


def test_models_that_the_container_cannot_read_or_write_are_found(
    tools: Path, checkout: Path
) -> None:
    docker(tools)
    version = checkout / "model_repository" / "toy_inference" / "1"
    version.mkdir(parents=True)
    config = version.parent / "config.pbtxt"
    config.touch()
    owner = {"BUNDLE_UID": str(os.getuid()), "BUNDLE_GID": str(os.getgid())}
    assert files.check_permissions(Project.load(checkout, owner)) == []

    config.chmod(0o600)
    stranger = {"BUNDLE_UID": "54321", "BUNDLE_GID": "54321"}
    found = files.check_permissions(Project.load(checkout, stranger))
    assert [finding.detail.split(" model_repository")[0] for finding in found] == [
        "uid 54321 cannot read",
        "uid 54321 cannot write",
    ]
