"""Traffic of every kind gives the right numbers: on /metrics, in Prometheus, in the SLO ratios."""

from __future__ import annotations

from typing import Any

import pytest
from exposition import Scrape
from prometheus_process import PrometheusProcess

from common.errors import ERROR_CODES
from common.metric_families import FAMILIES, REQUEST_OUTCOMES, STAGES
from common.recorder import SAMPLES_PER_FLUSH

Traffic = tuple[Scrape, Scrape]
REQUESTS = {"ok": 25, "client_error": 9, "server_error": 4, "refused": 5}
IMAGES = {"ok": 20 + 20 + 6, "client_error": 9, "server_error": 4}
ANSWERED = 25 + 9 + 4
# Our counters follow Triton's by up to a scrape, and rate() extrapolates each to its window;
# counting anything twice, or a client's fault as ours, is off by 50 % and more.
RATE_TOLERANCE = 0.2


def grown(traffic: Traffic, name: str, **labels: str) -> float:
    before, after = traffic
    return after.total(name, **labels) - before.total(name, **labels)


@pytest.mark.parametrize(("outcome", "count"), REQUESTS.items())
def test_requests_are_counted_by_outcome(traffic: Traffic, outcome: str, count: int) -> None:
    assert grown(traffic, "pipeline_requests_total", outcome=outcome) == count


@pytest.mark.parametrize(("outcome", "count"), IMAGES.items())
def test_images_are_counted_by_outcome(traffic: Traffic, outcome: str, count: int) -> None:
    assert grown(traffic, "pipeline_images_total", outcome=outcome) == count


@pytest.mark.parametrize(
    ("stage", "code", "count"),
    [
        ("preprocess", "INVALID_BASE64", 6),
        ("preprocess", "CORRUPT_IMAGE", 3),
        ("postprocess", "INVALID_MODEL_OUTPUT", 4),
    ],
)
def test_an_error_is_counted_once_in_the_stage_that_found_it(
    traffic: Traffic, stage: str, code: str, count: int
) -> None:
    assert grown(traffic, "pipeline_errors_total", stage=stage, code=code) == count
    assert grown(traffic, "pipeline_errors_total", code=code) == count


def test_no_other_error_is_counted(traffic: Traffic) -> None:
    assert grown(traffic, "pipeline_errors_total") == 6 + 3 + 4


def test_every_series_exists_before_its_first_event(traffic: Traffic) -> None:
    before, _ = traffic
    for stage in STAGES:
        found = before.label_values("pipeline_errors_total", "code", stage=stage)
        assert found == set(ERROR_CODES)
    assert before.label_values("pipeline_requests_total", "outcome") == set(REQUEST_OUTCOMES)


def test_latency_histograms_hold_every_request(traffic: Traffic) -> None:
    stage_count = "pipeline_stage_duration_seconds_count"
    assert grown(traffic, "pipeline_request_duration_seconds_count") == ANSWERED
    assert grown(traffic, stage_count, stage="preprocess") == ANSWERED + REQUESTS["refused"]
    assert grown(traffic, stage_count, stage="postprocess") == ANSWERED


def test_the_request_takes_longer_than_its_stages(traffic: Traffic) -> None:
    stages = grown(traffic, "pipeline_stage_duration_seconds_sum", stage="postprocess")
    assert grown(traffic, "pipeline_request_duration_seconds_sum") > stages > 0


def test_sampled_histograms_are_filled_and_never_exceed_the_images(traffic: Traffic) -> None:
    """The whole traffic may fit into one flush, which takes no more than its sample."""
    received = sum(IMAGES.values()) + REQUESTS["refused"]
    assert SAMPLES_PER_FLUSH <= grown(traffic, "pipeline_input_bytes_count") <= received
    assert SAMPLES_PER_FLUSH <= grown(traffic, "pipeline_top1_confidence_count") <= IMAGES["ok"]
    for step in ("decode", "resize", "normalise"):
        name = "pipeline_preprocess_step_duration_seconds_count"
        assert SAMPLES_PER_FLUSH <= grown(traffic, name, step=step) <= received


def test_nothing_is_lost(traffic: Traffic) -> None:
    assert grown(traffic, "pipeline_metrics_lost_total") == 0


def test_all_families_are_on_the_page(traffic: Traffic) -> None:
    _, after = traffic
    found = {name.removesuffix("_count") for name in after.names}
    assert set(FAMILIES) <= found


def test_one_rule_undoes_the_double_count(traffic: Traffic, prometheus: PrometheusProcess) -> None:
    failed = 'sum(pipeline:failed_requests:total{pipeline="resnet50"})'
    assert prometheus.value(failed) == REQUESTS["refused"]
    raw = 'sum(nv_inference_request_failure{model="resnet50_ensemble"})'
    assert prometheus.value(raw) == 2 * REQUESTS["refused"]


def test_prometheus_holds_what_the_page_says(
    traffic: Traffic, prometheus: PrometheusProcess
) -> None:
    _, after = traffic
    for outcome in REQUEST_OUTCOMES:
        stored = prometheus.value(f'pipeline_requests_total{{outcome="{outcome}"}}')
        assert stored == after.total("pipeline_requests_total", outcome=outcome)


def test_the_availability_ratio_is_server_faults_over_all_requests(
    traffic: Traffic, prometheus: PrometheusProcess
) -> None:
    ratio = prometheus.value('pipeline:slo_availability_errors:ratio_rate5m{pipeline="resnet50"}')
    all_requests = sum(REQUESTS.values())
    assert ratio == pytest.approx(REQUESTS["server_error"] / all_requests, rel=RATE_TOLERANCE)


def test_the_share_of_each_error_code_is_of_all_images(
    traffic: Traffic, prometheus: PrometheusProcess
) -> None:
    ratio = prometheus.value('pipeline:errors:ratio_rate5m{code="INVALID_BASE64"}')
    assert ratio == pytest.approx(6 / sum(IMAGES.values()), rel=RATE_TOLERANCE)


def test_server_faults_fire_and_clients_faults_do_not_page(
    traffic: Traffic, prometheus: PrometheusProcess
) -> None:
    firing = prometheus.firing()
    assert {"Watchdog", "PipelineServerFaults"} <= firing
    assert not firing & {"TritonPythonStubDown", "TritonModelMissing", "TritonTargetDown"}


def test_every_rule_evaluates_without_error(
    traffic: Traffic, prometheus: PrometheusProcess
) -> None:
    rules: list[dict[str, Any]] = [r for g in prometheus.rule_groups() for r in g["rules"]]
    assert len(rules) > 70
    assert [(r["name"], r["lastError"]) for r in rules if r["health"] != "ok"] == []


@pytest.mark.parametrize(
    "name",
    [
        "pipeline:requests:rate5m",
        "pipeline:slo_latency_slow:ratio_rate5m",
        "pipeline:request_duration_seconds:p95_5m",
        "stage:pipeline_stage_duration_seconds:p95_5m",
        "model:nv_inference_request_success:rate5m",
        "model:nv_inference_request_failure:rate5m",
        "model:queue_seconds:mean5m",
        "model:batch_size:mean5m",
        "pipeline:top1_confidence:mean1h",
        "pipeline:expected_model:info",
        "pipeline:expected_stage_instances:count",
        "slo:availability:objective",
    ],
)
def test_a_recording_rule_has_data(
    traffic: Traffic, prometheus: PrometheusProcess, name: str
) -> None:
    assert prometheus.query(name)
