"""When each alert must fire and when it must not; `make rules` writes them to prometheus/tests/."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alerting.promtool import Case, Firing
from alerting.settings import MODEL_SUFFIXES, Settings
from alerting.slo_alerts import BURN_RATES

SERVER = {"instance": "triton:8002", "job": "triton"}
PIPELINE = {"job": "triton", "pipeline": "resnet50"}
UP = 'up{instance="triton:8002",job="triton"}'
GPU_UUID = "GPU-8f0d"


def cases_of_groups(settings: Settings) -> dict[str, Sequence[Case]]:
    """Group name → cases."""
    return {
        "slo": [*_availability(settings), *_latency(settings)],
        "triton": _triton(settings),
        "pipeline": _pipeline(settings),
        "gpu": _gpu_cases(),
        "monitoring": _monitoring_cases(),
    }


def _series(metric: str, **labels: str) -> str:
    inner = ",".join(f'{name}="{value}"' for name, value in {**SERVER, **labels}.items())
    return f"{metric}{{{inner}}}"


def _success(model: str) -> str:
    return _series("nv_inference_request_success", model=f"resnet50_{model}", version="1")


def _failure(model: str, reason: str) -> str:
    name = "nv_inference_request_failure"
    return _series(name, model=f"resnet50_{model}", version="1", reason=reason)


def _requests(outcome: str) -> str:
    return _series("pipeline_requests_total", pipeline="resnet50", outcome=outcome)


def _growing(per_minute: float, minutes: int) -> str:
    return f"0+{per_minute:g}x{minutes}"


# --- service level objectives: 30 minutes of 60 requests a minute ----------------------------

_MINUTES = 30
_PER_MINUTE = 60.0


def _answers(
    failed_ratio: float, refused: float = 0, in_band: float = 0, per_minute: float = _PER_MINUTE
) -> dict[str, str]:
    failed = failed_ratio * per_minute + refused
    return {
        _success("ensemble"): _growing(per_minute - failed, _MINUTES),
        _failure("ensemble", "OTHER"): _growing(2 * failed, _MINUTES),
        _requests("refused"): _growing(refused, _MINUTES),
        _requests("server_error"): _growing(in_band, _MINUTES),
    }


def _burning(windows: Sequence[str], value: str) -> list[Firing]:
    return [Firing(PIPELINE, value, {"window": window}) for window in windows]


def _burn_cases(
    alert: str, budget: float, series_for: Callable[[float], dict[str, str]]
) -> list[Case]:
    cases = []
    for factor in (*(burn.factor for burn in BURN_RATES), 0):
        ratio = (factor or 0.5) * budget * (1.1 if factor else 1)
        windows = [burn.long for burn in BURN_RATES if burn.factor <= factor]
        why = f"{ratio / budget:.3g} times the budget"
        fires = _burning(windows, _percent(ratio))
        cases.append(Case(alert, why, series_for(ratio), _MINUTES, fires, is_first_minute=False))
    return cases


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.4g}%"


def _availability(settings: Settings) -> list[Case]:
    alert, budget = "PipelineAvailabilityBudgetBurn", settings.availability_budget
    all_windows = [burn.long for burn in BURN_RATES]
    bad = 16 * budget

    def failed_and_then(bad: float, rest: float, minutes: int) -> dict[str, str]:
        good, better = _PER_MINUTE * (1 - bad), _PER_MINUTE * (1 - rest)
        failed, fewer = 2 * _PER_MINUTE * bad, 2 * _PER_MINUTE * rest
        return {
            _success("ensemble"): _two_slopes(good, 60, better, minutes),
            _failure("ensemble", "OTHER"): _two_slopes(failed, 60, fewer, minutes),
            _requests("refused"): f"0x{60 + minutes}",
            _requests("server_error"): f"0x{60 + minutes}",
        }

    return [
        *_burn_cases(alert, budget, _answers),
        _young(alert, _answers(bad, per_minute=6000), _percent(bad)),
        Case(
            alert,
            "results with a server's error code inside HTTP 200",
            _answers(0, in_band=bad * _PER_MINUTE),
            _MINUTES,
            _burning(all_windows, _percent(bad)),
            is_first_minute=False,
        ),
        Case(alert, "half of the requests are refused", _answers(0, refused=30), _MINUTES),
        Case(alert, "hardly any traffic", _hardly_any(settings), _MINUTES),
        *_recoveries(alert, budget, failed_and_then),
    ]


def _recoveries(
    alert: str, budget: float, series_for: Callable[[float, float, int], dict[str, str]]
) -> list[Case]:
    """An hour at 18 times the budget, then some minutes at a few times.

    The long windows still hold the incident, the short ones show what is left of it.
    """
    cases = []
    for minutes, left, windows in ((10, 5, ("6h", "1d", "3d")), (40, 3, ("1d", "3d"))):
        mean = (60 * 18 + minutes * left) / (60 + minutes) * budget
        why = f"{minutes} minutes after an hour of trouble {', '.join(windows)} go on"
        series = series_for(18 * budget, left * budget, minutes)
        fires = _burning(windows, _percent(mean))
        cases.append(Case(alert, why, series, 60 + minutes, fires, is_first_minute=False))
    return cases


def _two_slopes(first: float, minutes: int, second: float, more: int) -> str:
    start = first * minutes + second
    return f"0+{first:g}x{minutes} {start:.10g}+{second:g}x{more - 1}"


def _young(alert: str, series: dict[str, str], value: str) -> Case:
    """Pages after two minutes, tickets after fifteen; one minute is what rate() needs."""
    pages, all_windows = ("1h", "6h"), [burn.long for burn in BURN_RATES]
    later = {15: _burning(pages, value), 16: _burning(all_windows, value)}
    return Case(alert, "from its beginning", series, 3, _burning(pages, value), later)


def _hardly_any(settings: Settings) -> dict[str, str]:
    """A little less than the least number of requests that counts, every other one failed."""
    few = 0.9 * settings.min_requests / _MINUTES
    return {
        _success("ensemble"): _growing(few / 2, _MINUTES),
        _failure("ensemble", "OTHER"): _growing(few, _MINUTES),
        _requests("refused"): f"0x{_MINUTES}",
        _requests("server_error"): f"0x{_MINUTES}",
    }


def _latency(settings: Settings) -> list[Case]:
    alert, budget = "PipelineLatencyBudgetBurn", settings.latency_budget
    bound = f"{settings.latency_seconds:g}"

    def durations(fast: str, everything: str) -> dict[str, str]:
        name = "pipeline_request_duration_seconds"
        return {
            _series(f"{name}_bucket", pipeline="resnet50", le=bound): fast,
            _series(f"{name}_bucket", pipeline="resnet50", le="+Inf"): everything,
            _series(f"{name}_count", pipeline="resnet50"): everything,
        }

    def steady(slow_ratio: float, per_minute: float = _PER_MINUTE) -> dict[str, str]:
        everything = _growing(per_minute, _MINUTES)
        return {
            **durations(_growing(per_minute * (1 - slow_ratio), _MINUTES), everything),
            _success("ensemble"): everything,
            _failure("ensemble", "OTHER"): f"0x{_MINUTES}",
        }

    def slow_and_then(bad: float, rest: float, minutes: int) -> dict[str, str]:
        everything = _growing(_PER_MINUTE, 60 + minutes)
        fast = _two_slopes(_PER_MINUTE * (1 - bad), 60, _PER_MINUTE * (1 - rest), minutes)
        return {
            **durations(fast, everything),
            _success("ensemble"): everything,
            _failure("ensemble", "OTHER"): f"0x{60 + minutes}",
        }

    bad = 15 * budget
    return [
        *_burn_cases(alert, budget, steady),
        _young(alert, steady(bad, 6000), _percent(bad)),
        Case(alert, "hardly any traffic", steady(bad) | _hardly_any(settings), _MINUTES),
        *_recoveries(alert, budget, slow_and_then),
    ]


# --- the server -------------------------------------------------------------------------------


def _triton(settings: Settings) -> list[Case]:
    pipeline = settings.pipelines[0]
    first, *_ = (f"{pipeline}_{suffix}" for suffix in MODEL_SUFFIXES)
    served = {
        _series("nv_inference_request_success", model=model, version="1"): "0x30"
        for name in settings.pipelines
        for model in (f"{name}_{suffix}" for suffix in MODEL_SUFFIXES)
        if model != first
    }
    gone = _series("nv_inference_request_success", model=first, version="1")
    instances = _series(
        "pipeline_stage_instances", model=first, pipeline=pipeline, stage="preprocess", version="1"
    )
    configured = settings.instances[first]
    ensemble = _success("ensemble")
    memory = _series("nv_cpu_memory_used_bytes"), _series("nv_cpu_memory_total_bytes")
    return [
        Case(
            "TritonTargetDown", "one minute of failed scrapes", {UP: "1x4 0x9"}, 6, [Firing(SERVER)]
        ),
        Case("TritonTargetDown", "the server answers", {UP: "1x20"}, 15),
        Case(
            "TritonTargetAbsent",
            "only other jobs are scraped",
            {'up{instance="localhost:9090",job="prometheus"}': "1x20"},
            2,
            [Firing({"job": "triton"})],
        ),
        Case("TritonTargetAbsent", "a target that is down is not absent", {UP: "0x20"}, 15),
        Case(
            "TritonModelMissing",
            "one of the expected models is gone",
            {UP: "1x30", gone: "0x9 stale", **served},
            11,
            [Firing({"model": first})],
        ),
        Case("TritonModelMissing", "all are served", {UP: "1x30", gone: "0x30", **served}, 20),
        Case("TritonModelMissing", "the server is down, another alert's case", {UP: "0x30"}, 20),
        Case(
            "TritonRestarting",
            "three restarts",
            {ensemble: "0+9x5 0+9x5 0+9x5 0+9x20"},
            18,
            [Firing(SERVER, "3")],
        ),
        Case("TritonRestarting", "one restart", {ensemble: "0+9x5 0+9x30"}, 30),
        Case(
            "TritonPythonStubDown",
            "one failed call",
            {_failure("preprocess", "BACKEND"): "0x4 1x30"},
            5,
            [Firing({**SERVER, "model": "resnet50_preprocess"})],
            {11: [Firing({**SERVER, "model": "resnet50_preprocess"})], 13: []},
        ),
        Case(
            "TritonPythonStubDown",
            "refused requests and a failing network are no dead stubs",
            {
                _failure("postprocess", "BACKEND"): "0x30",
                _failure("postprocess", "OTHER"): "0+5x30",
                _failure("inference", "BACKEND"): "0+5x30",
            },
            15,
        ),
        Case(
            "TritonInferenceFailing",
            "failures go on",
            {_failure("inference", "BACKEND"): "0x4 0+5x30"},
            7,
            [Firing({**SERVER, "model": "resnet50_inference"})],
        ),
        Case(
            "TritonInferenceFailing",
            "only a Python stage fails",
            {
                _failure("inference", "BACKEND"): "0x30",
                _failure("preprocess", "BACKEND"): "0+5x30",
            },
            20,
        ),
        Case(
            "TritonStageInstancesLeaked",
            "one more than configured",
            {instances: f"{configured}x4 {configured + 1}x30"},
            20,
            [Firing({**SERVER, "model": first}, str(configured + 1))],
        ),
        Case(
            "TritonStageInstancesLeaked",
            "a reload has both generations for a moment",
            {instances: f"{configured}x4 {configured * 2}x2 {configured}x30"},
            30,
        ),
        Case(
            "TritonHostMemoryAlmostFull",
            "96 of 100",
            {memory[0]: "50x4 96x30", memory[1]: "100x40"},
            15,
            [Firing(SERVER, "96%")],
        ),
        Case(
            "TritonHostMemoryAlmostFull", "94 of 100", {memory[0]: "94x40", memory[1]: "100x40"}, 30
        ),
    ]


# --- the pipelines ----------------------------------------------------------------------------


def _pipeline(settings: Settings) -> list[Case]:
    return [*_answers_cases(), *_queue_cases(), *_quality_cases(settings), *_upkeep_cases()]


def _answers_cases() -> list[Case]:
    ensemble = _success("ensemble")

    def errors(stage: str, code: str) -> str:
        return _series("pipeline_errors_total", pipeline="resnet50", stage=stage, code=code)

    def images(outcome: str) -> str:
        return _series("pipeline_images_total", pipeline="resnet50", outcome=outcome)

    nan = {"code": "INVALID_MODEL_OUTPUT", "stage": "postprocess"}
    return [
        Case(
            "PipelineCanaryFailing",
            "up, and nothing is answered",
            {UP: "1x30", ensemble: "0+9x4 36x30"},
            11,
            [Firing({**SERVER, "model": "resnet50_ensemble"})],
        ),
        Case(
            "PipelineCanaryFailing", "the canary is answered", {UP: "1x30", ensemble: "0+9x30"}, 25
        ),
        Case("PipelineCanaryFailing", "the server is down", {UP: "0x30", ensemble: "36x30"}, 25),
        Case(
            "PipelineServerFaults",
            "one NaN from the network",
            {errors("postprocess", "INVALID_MODEL_OUTPUT"): "0x4 1x30"},
            5,
            [Firing({**PIPELINE, **nan})],
            {25: []},
        ),
        Case(
            "PipelineServerFaults",
            "bad images are no fault of ours",
            {
                errors("preprocess", "CORRUPT_IMAGE"): "0+9x30",
                errors("preprocess", "INTERNAL"): "0x30",
            },
            20,
        ),
        Case(
            "PipelineErrorCodeRateHigh",
            "6 of 100 images",
            {
                errors("preprocess", "CORRUPT_IMAGE"): "0+6x30",
                images("ok"): "0+94x30",
                images("client_error"): "0+6x30",
            },
            11,
            [Firing({**PIPELINE, "code": "CORRUPT_IMAGE"}, "6%")],
        ),
        Case(
            "PipelineErrorCodeRateHigh",
            "4 of 100 images, and server faults have their own alert",
            {
                errors("preprocess", "CORRUPT_IMAGE"): "0+4x30",
                errors("postprocess", "INTERNAL"): "0+50x30",
                images("ok"): "0+46x30",
                images("client_error"): "0+4x30",
                images("server_error"): "0+50x30",
            },
            25,
        ),
        Case(
            "PipelineRefusedRequestsHigh",
            "6 of 100 requests",
            {
                _requests("refused"): "0+6x30",
                ensemble: "0+94x30",
                _failure("ensemble", "OTHER"): "0+12x30",
            },
            11,
            [Firing(PIPELINE, "6%")],
        ),
        Case(
            "PipelineRefusedRequestsHigh",
            "4 of 100 requests",
            {
                _requests("refused"): "0+4x30",
                ensemble: "0+96x30",
                _failure("ensemble", "OTHER"): "0+8x30",
            },
            25,
        ),
    ]


def _queue_cases() -> list[Case]:
    inference = {"job": "triton", "model": "resnet50_inference"}
    pending = _series("nv_inference_pending_request_count", model="resnet50_inference", version="1")
    waited = _series("nv_inference_queue_duration_us", model="resnet50_inference", version="1")
    answered = _success("inference")
    rejected = {
        _failure("ensemble", "OTHER"): "0x4 0+40x30",
        _requests("refused"): "0x4 0+12x30",
    }
    return [
        Case(
            "PipelineQueueGrowing",
            "over 20 and growing",
            {pending: "0x4 21+1x30"},
            10,
            [Firing(inference, "26")],
        ),
        Case("PipelineQueueGrowing", "long, but draining", {pending: "90-1x30"}, 20),
        Case("PipelineQueueGrowing", "growing, but short", {pending: "0+0.5x30"}, 30),
        Case(
            "PipelineQueueRejects",
            "eight a minute fail in no stage",
            {**rejected, _failure("preprocess", "BACKEND"): "0x40"},
            14,
            [Firing(PIPELINE, "0.13")],
        ),
        Case(
            "PipelineQueueRejects",
            "all of them failed in a stage",
            {**rejected, _failure("preprocess", "BACKEND"): "0x4 0+8x30"},
            30,
        ),
        Case(
            "PipelineQueueWaitHigh",
            "110 ms each",
            {waited: "0+1100000x30", answered: "0+10x30"},
            11,
            [Firing(inference, "110ms")],
        ),
        Case(
            "PipelineQueueWaitHigh",
            "90 ms each",
            {waited: "0+900000x30", answered: "0+10x30"},
            25,
        ),
    ]


def _quality_cases(settings: Settings) -> list[Case]:
    def stage_seconds(bound: str) -> str:
        labels = {"pipeline": "resnet50", "stage": "preprocess", "le": bound}
        model = {"model": "resnet50_preprocess", "version": "1"}
        return _series("pipeline_stage_duration_seconds_bucket", **labels, **model)

    def confidence(part: str) -> str:
        return _series(f"pipeline_top1_confidence_{part}", pipeline="resnet50", version="1")

    half = settings.latency_seconds / 2
    under, over = f"{half * 0.99:g}", f"{half * 1.01:g}"
    traffic = {_success("ensemble"): "0+60x200", _failure("ensemble", "OTHER"): "0x200"}
    hardly_any = {_success("ensemble"): "0+0.4x200", _failure("ensemble", "OTHER"): "0+0.8x200"}
    return [
        Case(
            "PipelineStageLatencyHigh",
            "p95 just over half of the objective",
            {
                stage_seconds(under): "0+1x30",
                stage_seconds(over): "0+100x30",
                stage_seconds("+Inf"): "0+100x30",
            },
            11,
            [Firing({**PIPELINE, "stage": "preprocess"}, _between(under, over, 94 / 99))],
        ),
        Case(
            "PipelineStageLatencyHigh",
            "p95 just under it",
            {stage_seconds(under): "0+100x30", stage_seconds("+Inf"): "0+100x30"},
            25,
        ),
        Case(
            "PipelineConfidenceDrift",
            "from 0.8 to 0.5 in the last hour",
            {
                confidence("sum"): "0+8x120 965+5x79",
                confidence("count"): "0+10x200",
                **traffic,
            },
            197,
            [Firing(PIPELINE, "0.18")],
        ),
        Case(
            "PipelineConfidenceDrift",
            "hardly any traffic",
            {
                confidence("sum"): "0+8x120 965+5x79",
                confidence("count"): "0+10x200",
                **hardly_any,
            },
            200,
        ),
        Case(
            "PipelineConfidenceDrift",
            "from 0.8 to 0.62",
            {
                confidence("sum"): "0+8x120 966.2+6.2x79",
                confidence("count"): "0+10x200",
                **traffic,
            },
            200,
        ),
    ]


def _between(low: str, high: str, share: float) -> str:
    seconds = float(low) + (float(high) - float(low)) * share
    return f"{seconds * 1000:.4g}ms"


def _upkeep_cases() -> list[Case]:
    def build(git: str) -> str:
        labels = {"config": "cpu", "weights": "V2", "onnx_sha256": "1", "recipe": "232/224"}
        return _series("pipeline_build_info", pipeline="resnet50", git=git, **labels)

    node = {"instance": "node-exporter:9100", "job": "node-exporter", "pipeline": "resnet50"}
    release = (
        'pipeline_release_success{instance="node-exporter:9100",job="node-exporter",'
        'pipeline="resnet50"}'
    )
    shm = [_series(f"pipeline_shm_{part}_bytes", pipeline="resnet50") for part in ("used", "size")]
    lost = _series("pipeline_metrics_lost_total", pipeline="resnet50", stage="preprocess")
    return [
        Case(
            "PipelineBuildsDiffer",
            "two builds for a quarter of an hour",
            {build("a"): "1x60", build("b"): "0x4 1x60"},
            20,
            [Firing(PIPELINE, "2")],
        ),
        Case(
            "PipelineBuildsDiffer",
            "a finished release leaves the old build at 0",
            {build("a"): "1x4 0x60", build("b"): "0x4 1x60"},
            40,
        ),
        Case(
            "PipelineReleaseFailed", "the last one failed", {release: "1x4 0x9"}, 5, [Firing(node)]
        ),
        Case("PipelineReleaseFailed", "the last one succeeded", {release: "1x20"}, 15),
        Case(
            "PipelineSharedMemoryAlmostFull",
            "90 of 100",
            {shm[0]: "50x4 90x30", shm[1]: "100x40"},
            10,
            [Firing(SERVER, "90%")],
        ),
        Case(
            "PipelineSharedMemoryAlmostFull", "80 of 100", {shm[0]: "80x40", shm[1]: "100x40"}, 30
        ),
        Case(
            "PipelineMetricsLost",
            "one value was no number",
            {lost: "0x4 1x30"},
            5,
            [Firing({**PIPELINE, "stage": "preprocess"})],
        ),
        Case("PipelineMetricsLost", "nothing was lost", {lost: "0x30"}, 20),
    ]


# --- GPU --------------------------------------------------------------------------------------


def _gpu_cases() -> list[Case]:
    gpu = {"gpu_uuid": GPU_UUID}
    busy = _series("nv_gpu_utilization", **gpu)
    memory = [_series(f"nv_gpu_memory_{part}_bytes", **gpu) for part in ("used", "total")]
    queue = _series("nv_inference_queue_duration_us", model="resnet50_inference", version="1")
    build = _series("pipeline_build_info", pipeline="resnet50", config="tensorrt")
    xid = {"instance": "dcgm-exporter:9400", "job": "dcgm-exporter", "gpu": "0", "UUID": GPU_UUID}
    xid_series = "DCGM_FI_DEV_XID_ERRORS{" + ",".join(f'{k}="{v}"' for k, v in xid.items()) + "}"
    waiting = {queue: "0+600000x60", _success("inference"): "0+10x60"}
    return [
        Case(
            "TritonGpuSaturated",
            "busy, and requests wait 60 ms",
            {busy: "0.98x60", **waiting},
            11,
            [Firing({"job": "triton"}, "98%")],
        ),
        Case(
            "TritonGpuSaturated",
            "busy, and nothing waits",
            {busy: "0.98x60", queue: "0+400000x60", _success("inference"): "0+10x60"},
            40,
        ),
        Case("TritonGpuSaturated", "waiting, with a GPU at 94 %", {busy: "0.94x60", **waiting}, 40),
        Case(
            "TritonGpuMemoryAlmostFull",
            "96 of 100",
            {memory[0]: "50x4 96x30", memory[1]: "100x40"},
            15,
            [Firing({**SERVER, **gpu}, "96%")],
        ),
        Case(
            "TritonGpuMemoryAlmostFull", "94 of 100", {memory[0]: "94x40", memory[1]: "100x40"}, 30
        ),
        Case("TritonGpuMetricsMissing", "served on a GPU", {build: "1x30"}, 10, [Firing(SERVER)]),
        Case("TritonGpuMetricsMissing", "they are there", {build: "1x30", busy: "0x30"}, 25),
        Case("TritonGpuMetricsMissing", "the GPU's build is gone", {build: "1x4 0x30"}, 30),
        Case(
            "TritonGpuMetricsMissing",
            "served on the CPU",
            {build.replace("tensorrt", "cpu"): "1x30"},
            25,
        ),
        Case("GpuXidError", "a new XID", {xid_series: "0x4 79x30"}, 5, [Firing(xid)]),
        Case("GpuXidError", "an old one stays", {xid_series: "79x40"}, 20),
    ]


# --- the monitoring itself --------------------------------------------------------------------


def _monitoring_cases() -> list[Case]:
    own = {"instance": "localhost:9090", "job": "prometheus"}

    def prometheus(metric: str, **labels: str) -> str:
        inner = ",".join(f'{name}="{value}"' for name, value in {**own, **labels}.items())
        return f"{metric}{{{inner}}}"

    reload_ok = prometheus("prometheus_config_last_reload_successful")
    group = {"rule_group": "alerts/slo.yml;slo"}
    failures = prometheus("prometheus_rule_evaluation_failures_total", **group)
    manager = {"alertmanager": "http://alertmanager:9093/api/v2/alerts"}
    unsent = prometheus("prometheus_notifications_errors_total", **manager)
    return [
        Case("Watchdog", "always", {UP: "1x9"}, 0, [Firing({})], {5: [Firing({})]}),
        Case("ExporterDown", "five minutes", {prometheus("up"): "1x4 0x20"}, 10, [Firing(own)]),
        Case(
            "ExporterDown", "Triton has its own alert", {UP: "0x30", prometheus("up"): "1x30"}, 20
        ),
        Case("PrometheusConfigReloadFailed", "refused", {reload_ok: "1x4 0x20"}, 10, [Firing(own)]),
        Case("PrometheusConfigReloadFailed", "accepted", {reload_ok: "1x30"}, 20),
        Case(
            "PrometheusRuleFailures",
            "failures go on",
            {failures: "0x4 0+1x30"},
            11,
            [Firing({**own, **group})],
        ),
        Case("PrometheusRuleFailures", "none", {failures: "3x30"}, 20),
        Case(
            "PrometheusNotificationsFailing",
            "errors go on",
            {unsent: "0x4 0+1x30"},
            11,
            [Firing({**own, **manager})],
        ),
        Case("PrometheusNotificationsFailing", "none", {unsent: "3x30"}, 20),
    ]
