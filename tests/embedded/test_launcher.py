"""The launcher: refuses with a reason, starts whole, stops without a trace."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests
from tiny_models import IDENTITY, IDENTITY_CONFIG, tensor, write_model

from embedded import CanaryFailed, EmbeddedServer, PreflightError, ServerDied, preflight
from embedded import server as server_module
from embedded.admin_key import project_admin_key
from embedded.flags import compose_flags, override_flags
from embedded.process import SHARED_MEMORY
from embedded.server_log import meaningful_lines

PROJECT = Path(__file__).resolve().parents[2]
SERVE = PROJECT / "scripts" / "serve.py"
TIMEOUT_S = 60


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    write_model(folder, "identity", IDENTITY, IDENTITY_CONFIG)
    return folder


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def shm_regions(server: EmbeddedServer) -> list[Path]:
    return list(SHARED_MEMORY.glob(f"{server.shm_prefix}*"))


# --- Start and stop ------------------------------------------------------------------------------


def test_a_stopped_server_leaves_no_process_no_shared_memory_and_no_folder(
    repository: Path,
) -> None:
    with EmbeddedServer(repository) as server:
        process = psutil.Process(server.pid)
        family = [process, *process.children(recursive=True)]
        assert any("stub" in member.name() for member in family)
        assert shm_regions(server)
        assert server.log_path is not None
        folder = server.log_path.parent
        assert (folder / "backends" / "onnxruntime" / "model.py").is_file()
    assert not any(member.is_running() for member in family)
    assert not shm_regions(server)
    assert not folder.exists()


def test_a_server_that_does_not_react_is_killed_with_its_stubs(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_STOP_PATIENCE_S", 1.0)
    with EmbeddedServer(repository) as server:
        process = psutil.Process(server.pid)
        family = [process, *process.children(recursive=True)]
        process.suspend()
    assert not any(member.is_running() for member in family)
    assert not shm_regions(server)


def test_the_log_stays_where_it_is_asked_for(repository: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with EmbeddedServer(repository, log_path=log):
        pass
    assert "successfully loaded 'identity'" in log.read_text()


def test_the_server_listens_on_the_loopback_address_only(repository: Path) -> None:
    with EmbeddedServer(repository) as server:
        listening = [
            each.laddr
            for each in psutil.Process(server.pid).net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
        ]
    assert {each.port for each in listening} == set(server.ports.values())
    # The metrics service listens on an IPv6 socket, where the address is written otherwise.
    assert {each.ip.removeprefix("::ffff:") for each in listening} == {"127.0.0.1"}


def test_the_repository_api_needs_the_admin_key(repository: Path) -> None:
    with EmbeddedServer(repository) as server:
        url = f"{server.http_url}/v2/repository/index"
        refused = requests.post(url, timeout=TIMEOUT_S)
        allowed = requests.post(url, headers=server.admin_headers, timeout=TIMEOUT_S)
    assert refused.status_code == 403
    assert allowed.status_code == 200


def test_two_servers_run_side_by_side(repository: Path) -> None:
    with EmbeddedServer(repository) as one, EmbeddedServer(repository) as other:
        for server in (one, other):
            answer = requests.get(f"{server.http_url}/v2/models/identity/ready", timeout=TIMEOUT_S)
            assert answer.status_code == 200


# --- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["http", "grpc", "metrics"])
def test_a_taken_port_is_refused_by_name(repository: Path, taken_port: int, name: str) -> None:
    expected = f"{name} port {taken_port} .*stop what holds it, or set {name.upper()}_PORT"
    with (
        pytest.raises(PreflightError, match=expected),
        EmbeddedServer(repository, **{f"{name}_port": taken_port}),
    ):
        pass


def test_two_services_on_one_port_are_refused(repository: Path) -> None:
    with (
        pytest.raises(PreflightError, match=r"http and grpc both want port 8123"),
        EmbeddedServer(repository, http_port=8123, grpc_port=8123),
    ):
        pass


def test_a_port_beyond_the_range_is_refused(repository: Path) -> None:
    with (
        pytest.raises(PreflightError, match="http port 70000: allowed is 0"),
        EmbeddedServer(repository, http_port=70000),
    ):
        pass


def test_a_log_that_cannot_be_written_is_refused(repository: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(PreflightError, match=r"cannot write the log .*: No such file"),
        EmbeddedServer(repository, log_path=tmp_path / "none" / "server.log"),
    ):
        pass


def test_a_configuration_for_a_gpu_is_refused_on_the_cpu(tmp_path: Path) -> None:
    config = IDENTITY_CONFIG + "instance_group [ { kind: KIND_GPU count: 1 } ]"
    write_model(tmp_path / "models", "gpu_model", IDENTITY, config)
    with (
        pytest.raises(ServerDied, match=r"gpu_model.* (GPU|gpu)"),
        EmbeddedServer(tmp_path / "models"),
    ):
        pass


def test_the_admin_key_is_the_projects_secret_or_random(tmp_path: Path) -> None:
    assert project_admin_key(tmp_path) != project_admin_key(tmp_path)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "triton_admin_key").write_text("the-key\n")
    assert project_admin_key(tmp_path) == "the-key"


def test_a_missing_onnx_file_is_refused_with_the_command_that_makes_it(repository: Path) -> None:
    file = repository / "identity" / "1" / "model.onnx"
    file.unlink()
    expected = re.escape(f"{file} is missing: run `make export-onnx`")
    with pytest.raises(PreflightError, match=expected), EmbeddedServer(repository):
        pass


def test_a_missing_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="does not exist"), EmbeddedServer(tmp_path / "none"):
        pass


def test_a_configuration_with_a_syntax_error_is_refused_by_file(repository: Path) -> None:
    (repository / "identity" / "config.pbtxt").write_text("max_batch_size: many")
    with (
        pytest.raises(PreflightError, match=r"identity/config.pbtxt is not a valid"),
        EmbeddedServer(repository),
    ):
        pass


@pytest.mark.parametrize("version", ["glibc 2.31", "musl 1.2", None])
def test_an_old_or_foreign_c_library_is_refused(version: str | None) -> None:
    with pytest.raises(PreflightError, match=r"needs Linux with glibc >= 2\.35"):
        preflight.check_glibc(version)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"common": False}, "`common` is not installed"),
        ({"numpy": "2.1.0"}, "numpy 2.1.0: .* needs numpy < 2"),
        ({"numpy": None}, "numpy is missing"),
        ({"onnxruntime": None}, "onnxruntime is not installed"),
    ],
)
def test_a_python_that_cannot_serve_is_refused(found: dict[str, object], expected: str) -> None:
    whole = {"common": True, "numpy": "1.26.4", "onnxruntime": "1.32.0"}
    with pytest.raises(PreflightError, match=expected):
        preflight.check_packages({**whole, **found})


def test_a_model_that_does_not_load_ends_the_start_with_the_reason(tmp_path: Path) -> None:
    config = "max_batch_size: 8\n" + tensor("input", "x", "4") + tensor("output", "y", "3")
    write_model(tmp_path / "models", "wrong", IDENTITY, config)
    server = EmbeddedServer(tmp_path / "models")
    with pytest.raises(ServerDied) as raised, server:
        pass
    assert "wrong: input x dims: config says [4], ONNX says [3] after the batch" in str(
        raised.value
    )
    assert "CUDA" not in str(raised.value)
    assert not shm_regions(server)


def test_an_ensemble_that_does_not_answer_ends_the_start(repository: Path) -> None:
    write_model(repository, "deaf_ensemble", IDENTITY, IDENTITY_CONFIG)
    server = EmbeddedServer(repository)
    with pytest.raises(CanaryFailed, match="deaf_ensemble answers a good image with"), server:
        pass
    assert not shm_regions(server)


# --- Flags ---------------------------------------------------------------------------------------


def write_compose(folder: Path, *words: str) -> Path:
    lines = "".join(f"      - {word}\n" for word in ("tritonserver", *words))
    file = folder / "docker-compose.yml"
    file.write_text(f"services:\n  triton:\n    command:\n{lines}")
    return file


def test_variables_are_substituted_as_compose_does(tmp_path: Path) -> None:
    file = write_compose(
        tmp_path, "--a=${SET:-x}", "--b=${UNSET:-x}", "--c=${EMPTY:-x}", "--d=${EMPTY-x}", "--e=$$1"
    )
    flags = compose_flags(file, {"SET": "1", "EMPTY": ""})
    assert flags == ["--a=1", "--b=x", "--c=x", "--d=", "--e=$1"]


def test_a_flag_of_the_run_replaces_that_of_the_compose_file() -> None:
    flags = ["--http-port=1", "--backend-config=python,a=1", "--backend-config=python,b=1"]
    own = ["--http-port=2", "--backend-config=python,b=2"]
    assert override_flags(flags, own) == ["--backend-config=python,a=1", *own]


def test_every_other_flag_is_the_compose_files(tmp_path: Path) -> None:
    server = EmbeddedServer()
    allowed = re.compile(
        r"--(model-repository|model-config-name|backend-directory|cache-directory"
        r"|(http|grpc|metrics)-(port|address)|allow-gpu-metrics"
        r"|http-restricted-api|grpc-restricted-protocol"
        r"|backend-config=python,shm-region-prefix-name)="
    )
    theirs = compose_flags(PROJECT / "docker-compose.yml", os.environ)
    ours = server.flags(tmp_path)
    assert [f for f in ours if not allowed.match(f)] == [f for f in theirs if not allowed.match(f)]


def test_a_compose_file_without_triton_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text("services: {}\n")
    with pytest.raises(PreflightError, match=r"no services\.triton\.command list"):
        compose_flags(file, {})


def test_gpu_noise_and_tables_are_left_out_of_the_log() -> None:
    head = "2026-01-31T12:00:00Z {} 1 server.cc:1] {}"
    noise = head.format("E", '"CudaDriverHelper has not been initialized."')
    loaded = head.format("I", "\"successfully loaded 'x'\"")
    table = [head.format("I", ""), "+----+", "| ok |", ""]
    assert meaningful_lines([noise, *table, loaded]) == [loaded]


# --- scripts/serve.py ----------------------------------------------------------------------------


def serve(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "HTTP_PORT": "0", "GRPC_PORT": "0", "METRICS_PORT": "0"}
    environment.pop("PYTHONPATH", None)
    return subprocess.Popen(
        [sys.executable, str(SERVE), *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def welcome_and_family(process: subprocess.Popen[str]) -> tuple[str, list[psutil.Process]]:
    """Wait for what it prints when it is ready; return that, and its server with its stubs."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    return "".join(lines), psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_works_from_any_folder_and_a_signal_stops_it_cleanly(
    tmp_path: Path, server: EmbeddedServer, number: signal.Signals
) -> None:
    # `server` has shown that the project's own models are complete.
    process = serve(tmp_path)
    out, family = welcome_and_family(process)
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert re.match(r"HTTP +http://127\.0\.0\.1:\d+\n", out), err
    assert "/v2/models/resnet50_ensemble/generate" in out
    assert "resnet50_ensemble answers" in err
    assert process.returncode == 0
    assert family
    assert not any(member.is_running() for member in family)


def test_serve_interrupted_while_it_starts_leaves_nothing(tmp_path: Path, repository: Path) -> None:
    process = serve(tmp_path, "--model-repository", str(repository))
    parent = psutil.Process(process.pid)
    deadline = time.monotonic() + TIMEOUT_S
    while not (family := parent.children()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert not any(member.is_running() for member in family)
    assert not list(SHARED_MEMORY.glob(f"triton_embedded_{process.pid}_*"))


def test_serve_reports_a_server_that_ends_by_itself(tmp_path: Path, repository: Path) -> None:
    process = serve(tmp_path, "--model-repository", str(repository))
    _, family = welcome_and_family(process)
    next(member for member in family if member.name() == "tritonserver").kill()
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "error: tritonserver ended by itself with exit code -9" in err
    assert not any(member.is_running() for member in family)
    assert not list(SHARED_MEMORY.glob(f"triton_embedded_{process.pid}_*"))


def test_serve_refuses_a_taken_port_with_exit_code_2(
    tmp_path: Path, repository: Path, taken_port: int
) -> None:
    process = serve(tmp_path, "--model-repository", str(repository), "--http-port", str(taken_port))
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert err.startswith(f"error: http port {taken_port} ")
    assert "Traceback" not in err
