"""Stopping under load: what is under way is finished, the rest gets 503 or no connection."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import requests
from slow_pipeline import make_slow_repository
from small_pipeline import ENSEMBLE, body, jpeg, quick_to_stop, text
from steady_load import SteadyLoad

from embedded import EmbeddedServer
from embedded.drain import drain

PICTURE = text(jpeg((200, 60, 20)))
CLIENTS = 6
# Drain, Triton's exit timeout with connections kept open, and a loaded machine.
STOP_SECONDS = 30.0
# A request that was sent before the stop may still be on its way through the HTTP front end.
ACCEPTED = (200, 503)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_slow_repository(tmp_path / "models", image_ms=15)


def test_a_stop_under_load_loses_no_request_that_was_under_way(repository: Path) -> None:
    with EmbeddedServer(repository) as server:
        load = SteadyLoad(server.http_url, [PICTURE] * 4, clients=CLIENTS, pause_s=0.05)
        with load:
            load.wait_for(2 * CLIENTS)
            stop_s = time.monotonic()
            server.stop()
            stopped_s = time.monotonic()
    under_way = [a for a in load.answers if a.sent_s < stop_s < a.answered_s]
    assert under_way, "nothing was under way: the test shows nothing"
    assert {a.status for a in under_way} <= set(ACCEPTED), under_way
    assert any(a.status == 200 for a in under_way)
    assert stopped_s - stop_s < STOP_SECONDS
    later = [a for a in load.answers if a.sent_s >= stop_s]
    # 0: refused or closed; on a connection kept open Triton goes on answering until it ends.
    assert {a.status for a in later} <= {503, 0}, later
    for answer in later:
        assert answer.answered_s - answer.sent_s < 5, "a request hangs"
        if answer.status == 503:
            assert "shutting down" in answer.text


def test_a_server_told_to_drain_finishes_what_is_queued_and_refuses_the_rest(
    repository: Path, tmp_path: Path
) -> None:
    with EmbeddedServer(repository, compose_file=quick_to_stop(tmp_path)) as server:
        url = f"{server.http_url}/v2/models/{ENSEMBLE}/infer"
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(requests.post(url, json=body([PICTURE] * 8), timeout=60).status_code)

        threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        assert server.drain_file is not None
        assert drain(server.drain_file, server.metrics_url, timeout_s=30)
        refused = requests.post(url, json=body([PICTURE]), timeout=10)
        assert refused.status_code == 503
        assert refused.json()["error"].endswith("shutting down; try another server, or again later")
        for thread in threads:
            thread.join(60)
        assert statuses == [200] * CLIENTS


def test_draining_gives_up_on_a_server_that_does_not_answer(tmp_path: Path) -> None:
    started = time.monotonic()
    assert not drain(tmp_path / "draining", "http://127.0.0.1:1/metrics")
    assert time.monotonic() - started < 2
