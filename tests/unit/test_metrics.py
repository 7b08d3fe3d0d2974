"""What StageMetrics sends to Triton: a stand-in refuses what the server would refuse."""

from __future__ import annotations

import math
import threading
import time

import pytest

from common import recorder
from common.errors import ERROR_CODES
from common.metric_families import FAMILIES, LATENCY_BUCKETS_S, REQUEST_OUTCOMES, STAGES
from common.metrics import StageMetrics, shm_bytes


class Refused(Exception):
    """A call that could abort the real server."""


class Metric:
    def __init__(self, kind: str, labels: dict, buckets: list[float] | None) -> None:
        self.kind, self.buckets = kind, buckets
        self.values: list[float] = []
        self.threads: set[int] = set()
        if not all(isinstance(value, str) for value in labels.values()) or "le" in labels:
            raise Refused(labels)
        if (kind == "histogram") != (buckets is not None):
            raise Refused(buckets)

    def _take(self, value: float, *kinds: str) -> None:
        self.threads.add(threading.get_ident())
        if self.kind not in kinds or type(value) is not float or not math.isfinite(value):
            raise Refused(value)
        self.values.append(value)

    def increment(self, value: float) -> None:
        if self.kind == "counter" and value < 0:
            raise Refused(value)
        self._take(value, "counter", "gauge")

    def observe(self, value: float) -> None:
        self._take(value, "histogram")

    def set(self, value: float) -> None:
        self._take(value, "gauge")


class Server:
    """``pb_utils`` and the /metrics page behind it."""

    def __init__(self) -> None:
        self.series: dict[tuple, Metric] = {}
        self.errors: list[str] = []
        server = self

        class MetricFamily:
            COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

            def __init__(self, name: str, description: str, kind: str) -> None:
                self.name, self.kind = name, kind

            def Metric(self, labels: dict, buckets: list[float] | None = None) -> Metric:
                metric = Metric(self.kind, labels, buckets)
                server.series[(self.name, *sorted(labels.items()))] = metric
                return metric

        class Logger:
            log_error = staticmethod(self.errors.append)

        self.MetricFamily, self.Logger = MetricFamily, Logger

    def values(self, name: str, **labels: str) -> list[float]:
        wanted = {("pipeline", "toy"), *labels.items()}
        found = [m for key, m in self.series.items() if key[0] == name and wanted <= set(key[1:])]
        assert len(found) == 1, (name, labels, sorted(self.series))
        return found[0].values


@pytest.fixture
def server() -> Server:
    return Server()


def stage(server: Server, name: str) -> StageMetrics:
    return StageMetrics(server, f"toy_{name}", "3")


def test_every_family_of_a_stage_exists_before_the_first_request(server: Server) -> None:
    stage(server, "preprocess").build_info(git="abc")
    stage(server, "postprocess")
    assert {key[0] for key in server.series} == set(FAMILIES)


@pytest.mark.parametrize("name", STAGES)
def test_every_error_code_is_born_at_0_in_each_stage(server: Server, name: str) -> None:
    stage(server, name)
    for code in ERROR_CODES:
        assert server.values("pipeline_errors_total", stage=name, code=code) == []


def test_a_request_counts_by_the_worst_of_its_images(server: Server) -> None:
    metrics = stage(server, "postprocess")
    metrics.request_done(["", "CORRUPT_IMAGE", ""], 0.02)
    metrics.request_done(["", "INTERNAL", "CORRUPT_IMAGE"], 0.02)
    metrics.request_done([""], 0.02)
    metrics.request_refused()
    metrics.close()
    requests = {
        outcome: sum(server.values("pipeline_requests_total", outcome=outcome))
        for outcome in REQUEST_OUTCOMES
    }
    assert requests == {"ok": 1, "client_error": 1, "server_error": 1, "refused": 1}
    assert sum(server.values("pipeline_images_total", outcome="ok")) == 4
    assert sum(server.values("pipeline_images_total", outcome="client_error")) == 2
    assert sum(server.values("pipeline_images_total", outcome="server_error")) == 1
    assert sorted(server.values("pipeline_images_per_request")) == [1, 3, 3]
    assert server.values("pipeline_request_duration_seconds") == [0.02] * 3


def test_a_code_outside_the_catalogue_counts_as_internal(server: Server) -> None:
    metrics = stage(server, "preprocess")
    metrics.image_error("NO_SUCH_CODE")
    metrics.close()
    assert server.values("pipeline_errors_total", code="INTERNAL") == [1.0]


def test_the_steps_of_preprocess_land_in_their_own_series(server: Server) -> None:
    metrics = stage(server, "preprocess")
    metrics.preprocess_steps(0.001, 0.002, 0.0)
    metrics.input(2048, 1.5)
    metrics.input(10, None)
    metrics.close()
    steps = "pipeline_preprocess_step_duration_seconds"
    assert [server.values(steps, step=s) for s in ("decode", "resize", "normalise")] == [
        [0.001],
        [0.002],
        [0.0],
    ]
    assert server.values("pipeline_input_bytes") == [2048.0, 10.0]
    assert server.values("pipeline_input_megapixels") == [1.5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "12", [1]])
def test_a_value_the_server_would_refuse_is_dropped_and_counted(
    server: Server, value: object
) -> None:
    metrics = stage(server, "postprocess")
    metrics.top1_confidence(value)  # type: ignore[arg-type]
    metrics.below_threshold(-1)
    metrics.close()
    assert server.values("pipeline_top1_confidence") == []
    assert server.values("pipeline_results_below_threshold_total") == []
    assert server.values("pipeline_metrics_lost_total") == [2.0]
    assert server.errors == []


def test_after_one_refused_call_no_further_call_is_made(server: Server) -> None:
    metrics = stage(server, "postprocess")

    def refuse(value: float) -> None:
        raise Refused(value)

    for metric in server.series.values():
        metric.increment = metric.observe = metric.set = refuse  # type: ignore[method-assign]
    metrics.request_done([""], 0.1)
    metrics.request_done([""], 0.1)
    metrics._recorder.close()
    assert len(server.errors) == 1
    assert "refused" in server.errors[0]


def test_a_full_queue_drops_and_counts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "QUEUE_CAPACITY", 10)
    monkeypatch.setattr(recorder, "FLUSH_INTERVAL_S", 60.0)
    metrics = stage(server, "preprocess")
    for _ in range(25):
        metrics.stage_done(0.001)
    metrics.close()
    assert len(server.values("pipeline_stage_duration_seconds")) == 10
    assert server.values("pipeline_metrics_lost_total") == [15.0]


def test_increments_of_one_counter_are_added_up_to_one_call(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "FLUSH_INTERVAL_S", 60.0)
    metrics = stage(server, "preprocess")
    for _ in range(1000):
        metrics.image_error("CORRUPT_IMAGE")
    metrics.close()
    assert server.values("pipeline_errors_total", code="CORRUPT_IMAGE") == [1000.0]


def test_a_sampled_histogram_is_bounded_and_unbiased(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "FLUSH_INTERVAL_S", 60.0)
    metrics = stage(server, "postprocess")
    kept = server.values("pipeline_top1_confidence")
    for _ in range(100):
        for value in range(100):
            metrics.top1_confidence(value / 99)
        metrics._recorder.flush()
    assert len(kept) == 100 * recorder.SAMPLES_PER_FLUSH
    # Mean of 800 uniform values: 0.5 ± 5 standard errors.
    assert sum(kept) / len(kept) == pytest.approx(0.5, abs=5 * 0.29 / math.sqrt(len(kept)))


def test_exact_histograms_lose_nothing_to_sampling(server: Server) -> None:
    metrics = stage(server, "preprocess")
    for number in range(500):
        metrics.stage_done(number / 1000)
    metrics.close()
    values = server.values("pipeline_stage_duration_seconds")
    assert sorted(values) == [n / 1000 for n in range(500)]


def test_many_threads_lose_nothing_and_only_one_thread_calls_triton(server: Server) -> None:
    metrics = stage(server, "preprocess")

    def work() -> None:
        for _ in range(2000):
            metrics.stage_done(0.001)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(recorder.FLUSH_INTERVAL_S * 2)
    key = next(key for key in server.series if key[0] == "pipeline_stage_duration_seconds")
    assert len(server.series[key].threads) == 1
    assert threading.get_ident() not in server.series[key].threads
    metrics.close()
    assert len(server.series[key].values) == 8_000


def test_close_sends_what_is_queued_and_takes_the_process_off_the_gauges(server: Server) -> None:
    metrics = stage(server, "preprocess")
    metrics.build_info(git="abc", config="cpu")
    metrics.stage_done(0.001)
    metrics.close()
    assert server.values("pipeline_stage_duration_seconds") == [0.001]
    assert server.values("pipeline_stage_instances") == [1.0, -1.0]
    assert server.values("pipeline_build_info", git="abc", weights="unknown") == [1.0, -1.0]


def test_no_thread_runs_before_the_first_request(server: Server) -> None:
    before = threading.active_count()
    metrics = stage(server, "preprocess")
    assert threading.active_count() == before
    metrics.close()


def test_build_labels_are_printable_bounded_text(server: Server) -> None:
    stage(server, "preprocess").build_info(weights="a\nb\x00é", recipe="x" * 500)
    key = next(key for key in server.series if key[0] == "pipeline_build_info")
    labels = dict(key[1:])
    assert labels["weights"] == "a?b??"
    assert len(labels["recipe"]) == 120
    assert labels["onnx_sha256"] == "unknown"


def test_postprocess_reports_shared_memory(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "FLUSH_INTERVAL_S", 0.01)
    metrics = stage(server, "postprocess")
    metrics.top1_confidence(0.5)
    deadline = time.monotonic() + 5
    while not server.values("pipeline_shm_size_bytes") and time.monotonic() < deadline:
        time.sleep(0.01)
    metrics.close()
    assert server.values("pipeline_shm_size_bytes") == [shm_bytes()[1]]
    assert 0 <= server.values("pipeline_shm_used_bytes")[0] <= shm_bytes()[1]


def test_a_model_name_without_a_stage_is_refused(server: Server) -> None:
    with pytest.raises(ValueError, match="preprocess,postprocess"):
        StageMetrics(server, "resnet50", "1")


def test_an_observation_costs_the_request_less_than_ten_microseconds(server: Server) -> None:
    metrics = stage(server, "preprocess")
    best_s = math.inf
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(200):
            metrics.stage_done(0.001)
        best_s = min(best_s, (time.perf_counter() - started) / 200)
    metrics.close()
    assert best_s < 10e-6


def test_selected_bounds_are_no_whole_numbers() -> None:
    assert not any(bound.is_integer() for bound in LATENCY_BUCKETS_S)
