"""What rules and alerts rely on in Triton itself. A failure here means: this release behaves
differently, so read prometheus/rules and docs/runbook.md again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import requests
from exposition import Scrape
from toy_models import MISBEHAVING, send, write_ensemble, write_model

from alerting.recording import FAILURES_COUNTED_PER_REQUEST
from embedded.server import EmbeddedServer

FAILURES = "nv_inference_request_failure"
SUCCESSES = "nv_inference_request_success"
STAGE = {"model": "quirk_preprocess"}
ENSEMBLE = {"model": "quirk_ensemble"}


@pytest.fixture(scope="module")
def quirks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    repository = tmp_path_factory.mktemp("quirks")
    write_model(repository, "quirk_preprocess", MISBEHAVING)
    write_model(repository, "quirk_postprocess", MISBEHAVING)  # the one that dies
    write_ensemble(repository, "quirk")
    with EmbeddedServer(repository) as running:
        yield running
        os.killpg(running.pid, signal.SIGKILL)  # a dead stub delays a clean stop by its timeout


def changes(server: EmbeddedServer, orders: list[str], model: str, status: int) -> Change:
    before = Scrape.settled(server.metrics_url)
    for order in orders:
        assert send(server.http_url, model, order).status_code == status
    return Change(before, Scrape.settled(server.metrics_url))


class Change:
    def __init__(self, before: Scrape, after: Scrape) -> None:
        self.before, self.after = before, after

    def of(self, name: str, **labels: str) -> float:
        return self.after.total(name, **labels) - self.before.total(name, **labels)


@pytest.mark.parametrize(("order", "status"), [("refuse", 400), ("raise", 500)])
def test_an_ensemble_counts_a_failed_request_twice(
    quirks: EmbeddedServer, order: str, status: int
) -> None:
    change = changes(quirks, [order] * 3, "quirk_ensemble", status)
    assert change.of(FAILURES, **ENSEMBLE) == 3 * FAILURES_COUNTED_PER_REQUEST
    assert change.of(FAILURES, reason="OTHER", **ENSEMBLE) == 3 * FAILURES_COUNTED_PER_REQUEST
    assert change.of(SUCCESSES, **ENSEMBLE) == 0


def test_a_stage_that_answers_triton_error_counts_a_success(quirks: EmbeddedServer) -> None:
    change = changes(quirks, ["refuse"] * 3, "quirk_ensemble", 400)
    assert change.of(SUCCESSES, **STAGE) == 3
    assert change.of(FAILURES, **STAGE) == 0


def test_a_stage_that_raises_counts_one_backend_failure(quirks: EmbeddedServer) -> None:
    change = changes(quirks, ["raise"] * 3, "quirk_ensemble", 500)
    assert change.of(FAILURES, reason="BACKEND", **STAGE) == 3
    assert change.of(SUCCESSES, **STAGE) == 0


def test_a_malformed_request_is_counted_nowhere(quirks: EmbeddedServer) -> None:
    before = Scrape.settled(quirks.metrics_url)
    url = f"{quirks.http_url}/v2/models"
    wrong_name = {"inputs": [{"name": "X", "datatype": "BYTES", "shape": [1, 1], "data": ["x"]}]}
    assert requests.post(f"{url}/quirk_ensemble/infer", json=wrong_name).status_code == 400
    assert requests.post(f"{url}/no_such_model/infer", json=wrong_name).status_code == 404
    change = Change(before, Scrape.settled(quirks.metrics_url))
    assert change.of(FAILURES) == change.of(SUCCESSES) == 0


def test_every_failure_reason_is_born_at_0(quirks: EmbeddedServer) -> None:
    reasons = Scrape.settled(quirks.metrics_url).label_values(FAILURES, "reason", **ENSEMBLE)
    assert reasons == {"REJECTED", "CANCELED", "BACKEND", "OTHER"}


def test_triton_offers_no_latency_histogram_for_ordinary_models(quirks: EmbeddedServer) -> None:
    """Ours can go when it does (from 26.01: nv_inference_first_response_histogram_ms)."""
    names = Scrape.settled(quirks.metrics_url).names
    assert [name for name in names if name.startswith("nv_") and name.endswith("_bucket")] == []


def test_a_dead_stub_is_never_restarted_while_ready_stays_200(quirks: EmbeddedServer) -> None:
    victim = {"model": "quirk_postprocess"}
    assert send(quirks.http_url, victim["model"], "die").status_code == 500
    change = changes(quirks, ["fine"] * 4, victim["model"], 500)
    assert change.of(FAILURES, reason="BACKEND", **victim) == 4
    ready = "/v2/health/ready", f"/v2/models/{victim['model']}/ready"
    assert [requests.get(quirks.http_url + path).status_code for path in ready] == [200, 200]
