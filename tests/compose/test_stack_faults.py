"""Things break; the stack heals, or says in one line what to do, and nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
import requests
from compose_stack import CONTAINER_UID, Stack, report, wait_until

HEALED_WITHIN_S = 45
MODEL = "model_repository/resnet50_inference/1/model.onnx"


@pytest.fixture(autouse=True)
def healthy_before_and_after(stack: Stack, photograph: bytes) -> Iterator[None]:
    """Each fault meets a healthy stack and leaves one."""
    if not stack.is_serving(photograph):
        stack.up()
    yield
    if not stack.is_serving(photograph):
        stack.up()
        wait_until(lambda: stack.is_serving(photograph), 60, "the stack serves again")


def now() -> str:
    """The time as `docker compose logs --since` wants it."""
    return datetime.now(timezone.utc).isoformat()


def heals(stack: Stack, photograph: bytes, fault: Callable[[], None]) -> None:
    """Inject a fault; the server must be restarted and answer every request soon."""
    restarts = stack.restarts()
    began_s = time.monotonic()
    fault()
    wait_until(lambda: stack.restarts() > restarts, HEALED_WITHIN_S, "the server is restarted")
    left_s = HEALED_WITHIN_S - (time.monotonic() - began_s)
    wait_until(lambda: stack.is_serving(photograph), left_s, "the server answers again")
    report("healed", began_s)


def send(pids: list[int], which: signal.Signals) -> Callable[[], None]:
    """A fault: a signal to processes."""
    assert pids

    def fault() -> None:
        for pid in pids:
            os.kill(pid, which)

    return fault


@pytest.mark.parametrize("model", ["resnet50_preprocess", "resnet50_postprocess"])
def test_one_killed_stub_is_healed(stack: Stack, photograph: bytes, model: str) -> None:
    victim = stack.stubs(model)[:1]
    heals(stack, photograph, send(victim, signal.SIGKILL))


def test_all_stubs_killed_at_once_are_healed(stack: Stack, photograph: bytes) -> None:
    heals(stack, photograph, send(stack.stubs(), signal.SIGKILL))


def test_a_hung_stub_is_healed(stack: Stack, photograph: bytes) -> None:
    victim = stack.stubs("resnet50_preprocess")[:1]
    heals(stack, photograph, send(victim, signal.SIGSTOP))


def test_all_stubs_hung_are_healed(stack: Stack, photograph: bytes) -> None:
    heals(stack, photograph, send(stack.stubs(), signal.SIGSTOP))


def test_a_killed_server_is_started_again(stack: Stack, photograph: bytes) -> None:
    server = [
        pid
        for pid, line in stack.processes("triton").items()
        if line.strip().startswith("tritonserver")
    ]
    heals(stack, photograph, send(server, signal.SIGKILL))
    left = stack.exec("triton", "ls", "/dev/shm").split()
    assert len(left) <= 2 * len(stack.stubs()), left


def test_a_truncated_onnx_is_exported_again_by_the_next_up(stack: Stack, photograph: bytes) -> None:
    before = stack.classify(photograph)
    model = stack.project / MODEL
    size = model.stat().st_size
    stack.compose("stop", "triton")
    os.truncate(model, size // 2)
    done = stack.up("triton")
    assert done.returncode == 0
    assert model.stat().st_size == size
    assert stack.classify(photograph) == before


def test_a_failing_export_leaves_the_server_that_runs_and_says_why(
    stack: Stack, photograph: bytes
) -> None:
    """The job fails although nothing about it has changed: a version folder it may not write."""
    started = stack.inspect("triton")["State"]["StartedAt"]
    folder = stack.project / MODEL.rpartition("/")[0]
    os.chown(folder, 0, 0)
    try:
        done = stack.up(check=False)
    finally:
        os.chown(folder, CONTAINER_UID, CONTAINER_UID)
    assert done.returncode == 1
    assert 'service "export" didn\'t complete successfully' in done.stderr
    assert "BUNDLE_UID" in stack.logs("export")
    assert stack.inspect("triton")["State"]["StartedAt"] == started
    assert stack.classify(photograph)


def test_an_export_tried_alone_first_spares_the_server_a_bad_setting(
    stack: Stack, photograph: bytes
) -> None:
    """As `make up` does: Compose would first take down all that depends on a changed job."""
    started = stack.inspect("triton")["State"]["StartedAt"]
    done = stack.compose("run", "--rm", "-T", "export", check=False, WEIGHTS="missing.pth")
    assert done.returncode == 2
    assert "missing.pth" in done.stderr
    assert stack.inspect("triton")["State"]["StartedAt"] == started
    assert stack.classify(photograph)


def test_after_an_up_with_a_bad_setting_the_next_up_heals(stack: Stack, photograph: bytes) -> None:
    done = stack.up(check=False, WEIGHTS="missing.pth")
    assert done.returncode == 1
    assert "missing.pth" in stack.logs("export")
    stack.up()
    assert stack.is_serving(photograph)


def test_an_export_without_write_permission_names_the_owner_and_the_knob(stack: Stack) -> None:
    done = stack.compose(
        "run", "--rm", "--no-deps", "-T", "--user", "12345:12345", "export", check=False
    )
    assert done.returncode == 2
    assert "BUNDLE_UID" in done.stderr + done.stdout


def test_a_full_shared_memory_fails_only_what_does_not_fit_and_is_healed(
    stack: Stack, photograph: bytes
) -> None:
    restarts = stack.restarts()
    free = stack.exec("triton", "df", "--output=avail", "-B1", "/dev/shm").split()[1]
    stack.exec("triton", "fallocate", "-l", str(int(free) - 65536), "/dev/shm/filler")
    big = stack.infer(photograph + b"\0" * 24_000_000, timeout_s=20)
    assert big.status_code == 500
    assert "shared memory" in big.text
    stack.exec("triton", "rm", "-f", "/dev/shm/filler", check=False)
    wait_until(lambda: stack.is_serving(photograph), HEALED_WITHIN_S, "small requests answered")
    assert stack.restarts() - restarts <= 1
    assert stack.infer(photograph + b"\0" * 24_000_000, timeout_s=20).status_code == 200


def test_shared_memory_too_small_to_start_says_what_to_raise(stack: Stack) -> None:
    since = now()
    done = stack.compose("up", "-d", "triton", SHM_SIZE="2m", timeout_s=60, check=False)
    wait_until(
        lambda: "Unable to initialize shared memory key" in stack.logs("triton", since), 40,
        f"the server's complaint ({done.stderr[-300:]})",
    )  # fmt: skip
    stack.up()


def test_a_taken_port_is_named_and_the_next_up_works(stack: Stack, photograph: bytes) -> None:
    stack.compose("stop", "triton")
    with socket.create_server(("127.0.0.1", stack.ports["HTTP_PORT"])):
        done = stack.up(check=False)
        assert done.returncode == 1
        assert "address already in use" in done.stderr
        assert str(stack.ports["HTTP_PORT"]) in done.stderr
    stack.up()
    assert stack.classify(photograph)


def test_a_missing_secret_file_stops_the_start_and_is_named(stack: Stack) -> None:
    key = stack.project / "secrets/triton_admin_key"
    kept = key.rename(key.with_suffix(".kept"))
    try:
        done = stack.compose("up", "-d", "--force-recreate", "--no-deps", "triton", check=False)
        assert done.returncode != 0
        assert "triton_admin_key" in done.stderr
        assert not key.exists()
    finally:
        kept.rename(key)
    stack.up()


@pytest.mark.parametrize(
    ("content", "complaint"), [("", "has 0 characters"), ("short\n", "has 5 characters")]
)
def test_an_empty_or_short_admin_key_refuses_to_serve(
    stack: Stack, content: str, complaint: str, tmp_path: Path
) -> None:
    weak = tmp_path / "key"
    weak.write_text(content)
    weak.chmod(0o444)
    done = stack.compose(
        "run", "--rm", "--no-deps", "-T", "-v", f"{weak}:/weak:ro", "-e",
        "TRITON_ADMIN_KEY_FILE=/weak", "triton", "tritonserver", check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "make secrets" in done.stderr


def test_a_stopped_prometheus_keeps_its_data_and_triton_does_not_notice(
    stack: Stack, photograph: bytes
) -> None:
    wait_until(lambda: stack.query('up{job="triton"} == 1'), 45, "a first scrape")
    earlier = f'nv_inference_count{{model="resnet50_ensemble"}} @ {time.time():.3f}'
    before = stack.query(earlier)
    restarts = stack.restarts()
    login = ("admin", stack.secret("grafana_admin_password"))
    health = stack.url("GRAFANA_PORT", "/api/datasources/uid/prometheus/health")
    stack.compose("stop", "prometheus")
    assert stack.classify(photograph)
    assert requests.get(health, auth=login, timeout=15).status_code != 200
    stack.up("prometheus")
    assert before
    assert stack.query(earlier)[0]["value"][1] == before[0]["value"][1]
    assert requests.get(health, auth=login, timeout=15).status_code == 200
    assert stack.restarts() == restarts


def test_a_graceful_stop_is_quick_and_clean(stack: Stack) -> None:
    began_s = time.monotonic()
    stack.compose("stop", "triton")
    assert time.monotonic() - began_s < 15
    assert stack.inspect("triton")["State"]["ExitCode"] == 0
    stack.up()


def test_a_missing_engine_refuses_to_serve_and_says_how_to_build_it(stack: Stack) -> None:
    done = stack.compose(
        "run", "--rm", "--no-deps", "-T", "-e", "MODEL_CONFIG=tensorrt", "triton", "tritonserver",
        "--model-repository=/models", check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "build-engine:" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_engine_file_refuses_a_host_without_a_gpu(stack: Stack) -> None:
    files = "docker-compose.yml:tests/compose/ci.yml"
    done = stack.compose(
        "run", "--rm", "--no-deps", "-T", "triton", "true", check=False, COMPOSE_FILE=files
    )
    assert done.returncode != 0
    assert "could not select device driver" in done.stderr


def test_the_healthcheck_reports_what_it_saw(stack: Stack) -> None:
    last = stack.inspect("triton")["State"]["Health"]["Log"][-1]
    assert last["ExitCode"] == 0
    assert "every canary answered" in last["Output"]
