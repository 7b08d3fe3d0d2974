"""A Python stage is killed under traffic: every figure and alert says so."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import psutil
import pytest
import requests
from bright_pipeline import GOOD, classify, make_repository
from exposition import Scrape
from prometheus_process import PrometheusProcess

from embedded.server import EmbeddedServer

GOOD_REQUESTS = 10
LOST_REQUESTS = 6
FAILURES = "nv_inference_request_failure"


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(make_repository(tmp_path_factory.mktemp("victim"))) as running:
        yield running


@pytest.fixture(scope="module")
def watched(
    victim: EmbeddedServer, prometheus_binary: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusProcess]:
    targets = {"triton": victim.metrics_url.split("/")[2]}
    with PrometheusProcess(tmp_path_factory.mktemp("watched"), targets) as running:
        yield running


@pytest.fixture(scope="module")
def crashed(victim: EmbeddedServer, watched: PrometheusProcess) -> tuple[Scrape, Scrape]:
    """The pages before the kill and after some requests that meet no process."""
    for _ in range(GOOD_REQUESTS):
        assert classify(victim.http_url, [GOOD]).status_code == 200
    watched.settle()
    before = Scrape.settled(victim.metrics_url)
    os.kill(stub_of(victim, "postprocess").pid, signal.SIGKILL)
    for _ in range(LOST_REQUESTS):
        assert classify(victim.http_url, [GOOD]).status_code == 500
    watched.settle()
    time.sleep(1.5)  # a second scrape of the final values
    return before, Scrape.settled(victim.metrics_url)


def stub_of(server: EmbeddedServer, stage: str) -> psutil.Process:
    """The process that runs a stage; its command line names model.py's folder."""
    [stub] = [
        process
        for process in psutil.Process(server.pid).children(recursive=True)
        if any(f"_{stage}/" in word for word in process.cmdline())
    ]
    return stub


def test_each_lost_request_counts_once_in_our_rule(
    crashed: tuple[Scrape, Scrape], watched: PrometheusProcess
) -> None:
    failed = "sum(pipeline:failed_requests:total)"
    assert watched.value(failed) == LOST_REQUESTS


def test_the_dead_stage_reports_backend_failures(crashed: tuple[Scrape, Scrape]) -> None:
    before, after = crashed
    where = {"model": "resnet50_postprocess", "reason": "BACKEND"}
    assert after.total(FAILURES, **where) - before.total(FAILURES, **where) == LOST_REQUESTS


def test_the_availability_ratio_sees_the_crash_that_our_own_counters_miss(
    crashed: tuple[Scrape, Scrape], watched: PrometheusProcess
) -> None:
    before, after = crashed
    own = "pipeline_requests_total"
    assert after.total(own, outcome="server_error") == before.total(own, outcome="server_error")
    ratio = watched.value("pipeline:slo_availability_errors:ratio_rate5m")
    wanted = LOST_REQUESTS / (GOOD_REQUESTS + LOST_REQUESTS)
    assert ratio == pytest.approx(wanted, rel=0.2)


def test_the_alert_fires_at_once(
    crashed: tuple[Scrape, Scrape], watched: PrometheusProcess
) -> None:
    assert "TritonPythonStubDown" in watched.firing()


def test_our_counters_survive_the_crash(crashed: tuple[Scrape, Scrape]) -> None:
    before, after = crashed
    name = "pipeline_requests_total"
    assert after.total(name, outcome="ok") == before.total(name, outcome="ok") >= GOOD_REQUESTS


def test_the_gauge_still_counts_the_dead_process(crashed: tuple[Scrape, Scrape]) -> None:
    _, after = crashed
    assert after.total("pipeline_stage_instances", stage="postprocess") == 1


def test_a_killed_stub_is_not_restarted_and_health_stays_green(
    crashed: tuple[Scrape, Scrape], victim: EmbeddedServer
) -> None:
    """Triton 2.51; from 25.12 on a model's readiness, from 26.04 on the server's sees it."""
    ready = "/v2/health/ready", "/v2/models/resnet50_postprocess/ready"
    assert [requests.get(victim.http_url + path).status_code for path in ready] == [200, 200]
    assert classify(victim.http_url, [GOOD]).status_code == 500


def test_a_server_that_is_gone_fires_within_its_minute(
    crashed: tuple[Scrape, Scrape], victim: EmbeddedServer, watched: PrometheusProcess
) -> None:
    os.killpg(victim.pid, signal.SIGKILL)
    watched.wait_until(
        lambda: "TritonTargetDown" in watched.pending_or_firing(), "TritonTargetDown"
    )
