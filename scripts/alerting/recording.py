"""Recording rules: Triton's counters made honest, SLO ratios, what dashboards read often."""

from __future__ import annotations

from alerting.rule import JOB, Group, Record
from alerting.settings import MODEL_SUFFIXES, Settings

WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")

# Triton adds 2 to an ensemble's nv_inference_request_failure for each failed request.
# tests/monitoring/test_triton_quirks.py fails when a release changes that.
FAILURES_COUNTED_PER_REQUEST = 2

FAILED_REQUESTS = "pipeline:failed_requests:total"


def recording_groups(settings: Settings) -> list[Group]:
    """All recording rules; the first group comes before everything that reads it."""
    return [
        Group("pipeline-counters", _counters(settings)),
        *(Group(f"pipeline-slo-{window}", _slo(settings, window)) for window in WINDOWS),
        Group("pipeline-dashboards", _dashboards()),
    ]


def _counters(settings: Settings) -> tuple[Record, ...]:
    failed = (
        f'nv_inference_request_failure{{{JOB},model=~".+_ensemble"}} '
        f"/ {FAILURES_COUNTED_PER_REQUEST}"
    )
    expected = (
        Record(
            "pipeline:expected_model:info",
            "vector(1)",
            {"pipeline": pipeline, "model": f"{pipeline}_{suffix}"},
        )
        for pipeline in settings.pipelines
        for suffix in MODEL_SUFFIXES
    )
    instances = (
        Record("pipeline:expected_stage_instances:count", f"vector({count})", {"model": model})
        for model, count in settings.instances.items()
    )
    return (
        # Not summed: each series keeps its own counter resets, so rate() works on it.
        Record(FAILED_REQUESTS, _with_pipeline(failed)),
        Record("slo:availability:objective", f"vector({settings.availability:g})"),
        Record("slo:latency:objective", f"vector({settings.latency_ratio:g})"),
        Record("slo:latency:threshold_seconds", f"vector({settings.latency_seconds:g})"),
        *expected,
        *instances,
    )


def _slo(settings: Settings, window: str) -> tuple[Record, ...]:
    answered = _with_pipeline(
        f'rate(nv_inference_request_success{{{JOB},model=~".+_ensemble"}}[{window}])'
    )
    failed = f"sum by (job, pipeline) (rate({FAILED_REQUESTS}[{window}]))"
    requests = f"pipeline:requests:rate{window}"
    duration = "pipeline_request_duration_seconds"
    # Prometheus 3 writes whole bounds as le="1.0", Prometheus 2 as le="1".
    bound = f"{settings.latency_seconds:g}".replace(".", "[.]") + "([.]0)?"
    return (
        Record(
            requests,
            f"""
            sum by (job, pipeline) ({answered})
            + {failed}
            """,
        ),
        # A refused request (HTTP 400) is a failure to Triton and no fault of ours. A result with
        # a server's error code is a success to Triton, and a fault of ours.
        Record(
            f"pipeline:slo_availability_errors:ratio_rate{window}",
            f"""
            (
              clamp_min({failed} - ({_outcome("refused", window)} or {failed} * 0), 0)
              + ({_outcome("server_error", window)} or {failed} * 0)
            )
            / ({requests} > 0)
            """,
        ),
        Record(
            f"pipeline:slo_latency_slow:ratio_rate{window}",
            f"""
            1 -
            sum by (job, pipeline) (rate({duration}_bucket{{{JOB},le=~"{bound}"}}[{window}]))
            / (sum by (job, pipeline) (rate({duration}_count{{{JOB}}}[{window}])) > 0)
            """,
        ),
    )


def _dashboards() -> tuple[Record, ...]:
    return (
        _p95("pipeline:request_duration_seconds:p95_5m", "pipeline_request_duration_seconds", ""),
        _p95(
            "stage:pipeline_stage_duration_seconds:p95_5m",
            "pipeline_stage_duration_seconds",
            "stage, ",
        ),
        Record(
            "model:nv_inference_request_success:rate5m",
            f"sum by (job, model, version) (rate(nv_inference_request_success{{{JOB}}}[5m]))",
        ),
        Record(
            "model:nv_inference_request_failure:rate5m",
            f"""
            sum by (job, model, version, reason) (rate({FAILED_REQUESTS}[5m]))
            or sum by (job, model, version, reason) (
              rate(nv_inference_request_failure{{{JOB},model!~".+_ensemble"}}[5m])
            )
            """,
        ),
        Record(
            "model:queue_seconds:mean5m",
            f"""
            sum by (job, model) (rate(nv_inference_queue_duration_us{{{JOB}}}[5m])) / 1e6
            / (sum by (job, model) (rate(nv_inference_request_success{{{JOB}}}[5m])) > 0)
            """,
        ),
        Record(
            "model:batch_size:mean5m",
            f"""
            sum by (job, model) (rate(nv_inference_count{{{JOB}}}[5m]))
            / (sum by (job, model) (rate(nv_inference_exec_count{{{JOB}}}[5m])) > 0)
            """,
        ),
        Record(
            "pipeline:errors:ratio_rate5m",
            f"""
            sum by (job, pipeline, code) (rate(pipeline_errors_total{{{JOB}}}[5m]))
            / on (job, pipeline) group_left ()
            (sum by (job, pipeline) (rate(pipeline_images_total{{{JOB}}}[5m])) > 0)
            """,
        ),
        _mean_confidence("1h"),
        _mean_confidence("1d"),
    )


def _with_pipeline(expr: str) -> str:
    return f'label_replace({expr}, "pipeline", "$1", "model", "(.+)_ensemble")'


def _outcome(outcome: str, window: str) -> str:
    counter = f'pipeline_requests_total{{{JOB},outcome="{outcome}"}}'
    return f"sum by (job, pipeline) (rate({counter}[{window}]))"


def _p95(name: str, histogram: str, labels: str) -> Record:
    rates = f"sum by (job, pipeline, {labels}le) (rate({histogram}_bucket{{{JOB}}}[5m]))"
    return Record(name, f"histogram_quantile(0.95, {rates})")


def _mean_confidence(window: str) -> Record:
    total = f"sum by (job, pipeline) (rate(pipeline_top1_confidence_sum{{{JOB}}}[{window}]))"
    count = f"sum by (job, pipeline) (rate(pipeline_top1_confidence_count{{{JOB}}}[{window}]))"
    return Record(f"pipeline:top1_confidence:mean{window}", f"{total}\n/ ({count} > 0)")
