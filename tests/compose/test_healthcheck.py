"""The healthcheck's decisions, against a server that misbehaves on command. Needs bash and curl."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).resolve().parents[2]
SCRIPT = PROJECT_ROOT / "docker/triton/healthcheck.sh"
GOOD = {"outputs": [{"name": "OUTPUT_RESULTS", "data": ['{"predictions": []}']}]}
BAD_RESULT = {"outputs": [{"name": "OUTPUT_RESULTS", "data": ['{"error": "INTERNAL"}']}]}
SLOWER_THAN_THE_CANARY_S = 5


class FakeServer(ThreadingHTTPServer):
    """Answers every inference the same way, and counts as many successes as it is told."""

    daemon_threads = True
    code = 200
    body: object = GOOD
    delay_s = 0.0
    answered = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    """Inference by POST, metrics by GET."""

    server: FakeServer

    def do_POST(self) -> None:
        json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.server.delay_s)
        self.reply(self.server.code, json.dumps(self.server.body))

    def do_GET(self) -> None:
        line = 'nv_inference_request_success{model="resnet50_ensemble",version="1"}'
        self.reply(200, f"{line} {self.server.answered}\n")

    def reply(self, code: int, text: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


class Probe:
    """A container in miniature: a fake server, and a sleeping process in tritonserver's place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = FakeServer()
        self.url = f"http://127.0.0.1:{self.api.server_port}"
        (folder / "models/resnet50_ensemble").mkdir(parents=True)
        self.process = subprocess.Popen(["sleep", "60"])
        entry = folder / "proc" / str(self.process.pid)
        entry.mkdir(parents=True)
        (entry / "comm").write_text("tritonserver\n")
        self.add_process(1000001, "S")

    def add_process(self, pid: int, state: str) -> Path:
        """A Python stub in the fake /proc."""
        stat = self.folder / "proc" / str(pid) / "stat"
        stat.parent.mkdir(exist_ok=True)
        stat.write_text(f"{pid} (triton_python_b) {state} 7 7 7 0 -1\n")
        return stat

    def run(self) -> tuple[int, str]:
        """Exit code and output of one check."""
        done = subprocess.run(
            [SCRIPT], capture_output=True, text=True, timeout=30, check=False,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HEALTHCHECK_URL": self.url,
                "HEALTHCHECK_METRICS_URL": f"{self.url}/metrics",
                "HEALTHCHECK_MODELS": str(self.folder / "models"),
                "HEALTHCHECK_CANARY": str(PROJECT_ROOT / "docker/triton/canary.json"),
                "HEALTHCHECK_STATE": str(self.folder / "state"),
                "HEALTHCHECK_PROC": str(self.folder / "proc"),
                "TRITON_DRAIN_FILE": str(self.folder / "draining"),
            },
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def was_ended(self) -> bool:
        """Whether the process in tritonserver's place has been killed."""
        try:
            return self.process.wait(timeout=0.5) == -9
        except subprocess.TimeoutExpired:
            return False

    def close(self) -> None:
        self.api.shutdown()
        self.api.server_close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Probe]:
    made = Probe(tmp_path)
    yield made
    made.close()


def test_an_answered_canary_is_healthy(probe: Probe) -> None:
    assert probe.run() == (0, "every canary answered\n")


def test_two_failed_canaries_in_a_row_end_the_server(probe: Probe) -> None:
    probe.api.code = 500
    assert probe.run()[0] == 1
    assert not probe.was_ended()
    assert "ending the server" in probe.run()[1]
    assert probe.was_ended()


def test_canaries_failing_every_other_time_end_the_server_too(probe: Probe) -> None:
    checks = 0
    while not probe.was_ended():
        probe.api.code = 500 if checks % 2 == 0 else 200
        probe.run()
        checks += 1
        assert checks <= 5
    assert checks == 5


def test_one_failed_canary_is_forgiven(probe: Probe) -> None:
    for code in (500, 200, 200, 500, 200, 200):
        probe.api.code = code
        probe.run()
    assert not probe.was_ended()


def test_a_server_that_sheds_load_and_answers_others_is_healthy(probe: Probe) -> None:
    probe.api.code = 503
    for answered in (10, 20, 30, 40):
        probe.api.answered = answered
        assert probe.run() == (0, "shedding load: resnet50_ensemble\n")
    assert not probe.was_ended()


def test_a_server_that_only_sheds_load_hangs_behind_its_queue_and_is_ended(probe: Probe) -> None:
    probe.api.answered = 10
    probe.run()
    probe.api.code = 503
    assert "nothing answered since the last check" in probe.run()[1]
    probe.run()
    assert probe.was_ended()


def test_no_answer_while_others_are_answered_is_load_and_not_a_hang(probe: Probe) -> None:
    probe.run()
    probe.api.delay_s, probe.api.answered = SLOWER_THAN_THE_CANARY_S, 10
    assert probe.run()[0] == 0


def test_no_answer_for_anyone_counts_as_a_failure(probe: Probe) -> None:
    probe.api.answered = 10
    probe.run()
    probe.api.delay_s = SLOWER_THAN_THE_CANARY_S
    code, output = probe.run()
    assert code == 1
    assert "timed out" in output
    assert "(score 2)" in output


@pytest.mark.parametrize(("code", "body"), [(400, {"error": "unknown model"}), (200, BAD_RESULT)])
def test_what_a_restart_would_not_cure_is_unhealthy_and_left_running(
    probe: Probe, code: int, body: object
) -> None:
    probe.api.code, probe.api.body = code, body
    assert [probe.run()[0] for _ in range(4)] == [1] * 4
    assert not probe.was_ended()


def test_a_server_that_drains_is_left_alone(probe: Probe) -> None:
    (probe.folder / "draining").touch()
    probe.api.code = 500
    assert [probe.run() for _ in range(3)] == [(0, "the server drains\n")] * 3
    assert not probe.was_ended()


def test_a_server_that_does_not_listen_yet_is_left_alone(probe: Probe) -> None:
    probe.api.shutdown()
    probe.api.server_close()
    for _ in range(3):
        assert probe.run() == (1, "the server does not listen yet\n")
    assert not probe.was_ended()


def test_a_dead_stub_ends_the_server_at_once(probe: Probe) -> None:
    probe.add_process(1000002, "Z")
    assert "a Python stub has died" in probe.run()[1]
    assert probe.was_ended()


def test_a_stub_that_is_just_being_reaped_is_no_death(probe: Probe) -> None:
    stat = probe.add_process(1000002, "Z")
    threading.Timer(0.5, stat.unlink).start()
    assert probe.run()[0] == 0
    assert not probe.was_ended()
