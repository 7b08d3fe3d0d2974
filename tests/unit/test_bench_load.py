"""The load generators and the accounting, against a server whose answers are known."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks import open_loop, process_tree


class _Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stall_s = 0.0
    status = 200
    served = 0

    def do_POST(self) -> None:
        kind = type(self)
        self.rfile.read(int(self.headers["Content-Length"]))
        kind.served += 1
        if kind.served == 1 and kind.stall_s:
            time.sleep(kind.stall_s)
        self.send_response(kind.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def served(one_at_a_time: bool = False, **settings: object) -> Iterator[str]:
    kind = type("Answers", (_Answers,), settings)
    server_kind = http.server.HTTPServer if one_at_a_time else http.server.ThreadingHTTPServer
    if one_at_a_time:
        kind.protocol_version = "HTTP/1.0"
    with server_kind(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_the_offered_rate_is_kept_and_everything_is_answered() -> None:
    with served() as url:
        load = open_loop.run(url, [b"{}"], rate=50, seconds=1.0)
    assert load.failed == 0
    # 50 exponential gaps of a fixed seed add up to about a second.
    assert 30 < load.answered_per_s < 80
    assert load.p50_ms <= load.p95_ms <= load.p99_ms


def test_a_stall_makes_every_request_behind_it_late() -> None:
    with served(one_at_a_time=True, stall_s=0.5) as url:
        load = open_loop.run(url, [b"{}"], rate=40, seconds=0.5)
    # A generator that waits for answers would show one slow request among 20, and a median of
    # a millisecond; here half of the requests were due while the server stood still.
    assert load.failed == 0
    assert load.p50_ms > 100


def test_an_error_status_counts_as_failed() -> None:
    with served(status=503) as url:
        load = open_loop.run(url, [b"{}"], rate=20, seconds=0.5)
    assert load.failed == 10
    assert load.answered_per_s == 0


def test_cpu_of_a_child_counts_for_its_parent() -> None:
    burn = "import time\nend=time.process_time()+0.3\nwhile time.process_time()<end: pass\ninput()"
    script = f"import subprocess,sys\nsubprocess.run([sys.executable,'-c',{burn!r}])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as parent:
        deadline = time.monotonic() + 20
        while process_tree.cpu_s(parent.pid) < 0.3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process_tree.cpu_s(parent.pid) >= 0.3
        assert process_tree.pss_MB(parent.pid) > 1
        assert parent.stdin is not None
        parent.stdin.write(b"\n")
        parent.stdin.close()


def test_a_process_that_is_gone_counts_nothing() -> None:
    assert process_tree.cpu_s(2**22 - 1) == 0
    assert process_tree.pss_MB(2**22 - 1) == 0
    assert process_tree.cpu_s(os.getpid()) > 0


def test_a_missing_load_generator_is_named_with_its_package(monkeypatch) -> None:
    from benchmarks import closed_loop

    monkeypatch.setenv("PATH", "")
    with pytest.raises(closed_loop.LoadError, match="apt-get install wrk"):
        closed_loop.check()
