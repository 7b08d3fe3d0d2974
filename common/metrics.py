"""Our Prometheus metrics, published on Triton's own /metrics through ``pb_utils.MetricFamily``.

FAMILIES is the whole list. Label values come from fixed sets, never from a request. Every counter
is born at 0, so that ``increase()`` sees the first event.

    metrics = StageMetrics(pb_utils, args["model_name"], args["model_version"])    # in initialize()
    metrics.build_info(config="cpu", weights="IMAGENET1K_V2", …)
    metrics.input(size_bytes, megapixels); metrics.preprocess_steps(…)              # per image
    metrics.image_error("CORRUPT_IMAGE")                 # per image, in the stage where it failed
    metrics.stage_done(duration_s)                                  # per request, in each stage
    metrics.request_done(["", "CORRUPT_IMAGE"], end_to_end_s)       # per request, in the last stage
    metrics.request_refused()                            # instead of it: TritonError was answered
    metrics.close()                                                                  # in finalize()

All calls but the constructor, ``build_info`` and ``close`` cost about 1 µs, may come from any
thread and never raise on a bad value (recorder.py). What a killed process had not yet sent, at most
FLUSH_INTERVAL_S worth, is lost. Metric objects are never deleted: deleting one takes the series
away from every other process that shares it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import CATALOGUE, ERROR_CODES, InternalError
from common.recorder import Recorder, Series

PREPROCESS = "preprocess"
POSTPROCESS = "postprocess"
STAGES = (PREPROCESS, POSTPROCESS)
STEPS = ("decode", "resize", "normalise")
IMAGE_OUTCOMES = ("ok", "client_error", "server_error")
REQUEST_OUTCOMES = (*IMAGE_OUTCOMES, "refused")
BUILD_LABELS = ("git", "config", "weights", "onnx_sha256", "recipe")

# The latency objective must be one of these bounds: its rule reads that bucket.
LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.5, 2.5)
STEP_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
INPUT_BUCKETS_BYTES = tuple(float(1024 * 4**power) for power in range(8))  # 1 KiB … 16 MiB
MEGAPIXEL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.5, 2.5, 5.5, 12.5, 25.5, 67.5)
IMAGES_BUCKETS = (1.5, 2.5, 4.5, 8.5, 16.5, 32.5)
CONFIDENCE_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

_SERVER_FAULTS = frozenset(error.code for error in CATALOGUE if error.server_fault)
_MAX_LABEL_CHARACTERS = 120
# Objects whose deletion would take a series from all processes; see the module docstring.
_KEPT_FOR_EVER: list[Any] = []


@dataclass(frozen=True)
class Family:
    """One metric family: ``kind`` counter, gauge or histogram, and the stages that write it.

    ``split`` is the one label that varies within a process, with all its values.
    """

    kind: str
    description: str
    labels: tuple[str, ...] = ("pipeline",)
    split: tuple[str, tuple[str, ...]] | None = None
    stages: tuple[str, ...] = STAGES
    buckets: tuple[float, ...] = ()
    is_sampled: bool = False


_STAGE_LABELS = ("pipeline", "stage", "model", "version")


def _sampled(
    description: str,
    stage: str,
    buckets: tuple[float, ...],
    labels: tuple[str, ...] = ("pipeline",),
    split: tuple[str, tuple[str, ...]] | None = None,
) -> Family:
    return Family(
        "histogram", f"{description} (sampled).", labels, split, (stage,), buckets, is_sampled=True
    )


FAMILIES: Mapping[str, Family] = {
    "pipeline_stage_duration_seconds": Family(
        "histogram",
        "Time one stage spent on one request.",
        _STAGE_LABELS,
        buckets=LATENCY_BUCKETS_S,
    ),
    "pipeline_request_duration_seconds": Family(
        "histogram",
        "Time from a request's arrival in preprocess to its answer in postprocess.",
        stages=(POSTPROCESS,),
        buckets=LATENCY_BUCKETS_S,
    ),
    "pipeline_requests_total": Family(
        "counter",
        "Requests by worst outcome of their images; refused = answered with HTTP 400.",
        split=("outcome", REQUEST_OUTCOMES),
    ),
    "pipeline_images_total": Family(
        "counter", "Images by outcome.", split=("outcome", IMAGE_OUTCOMES), stages=(POSTPROCESS,)
    ),
    "pipeline_errors_total": Family(
        "counter",
        "Images that got an error result, by the stage that found it and its code.",
        ("pipeline", "stage"),
        split=("code", ERROR_CODES),
    ),
    "pipeline_stage_instances": Family(
        "gauge", "Live processes of a stage; a killed one is never taken off.", _STAGE_LABELS
    ),
    "pipeline_images_per_request": _sampled("Images in one request", POSTPROCESS, IMAGES_BUCKETS),
    "pipeline_input_bytes": _sampled(
        "Size of one image as received", PREPROCESS, INPUT_BUCKETS_BYTES
    ),
    "pipeline_input_megapixels": _sampled(
        "Size of one image as its header says", PREPROCESS, MEGAPIXEL_BUCKETS
    ),
    "pipeline_preprocess_step_duration_seconds": _sampled(
        "Time one step of preprocess took for one image",
        PREPROCESS,
        STEP_BUCKETS_S,
        split=("step", STEPS),
    ),
    "pipeline_top1_confidence": _sampled(
        "Confidence of the best class of one image",
        POSTPROCESS,
        CONFIDENCE_BUCKETS,
        ("pipeline", "version"),
    ),
    "pipeline_results_below_threshold_total": Family(
        "counter",
        "Images whose best class stayed under the confidence threshold.",
        stages=(POSTPROCESS,),
    ),
    "pipeline_metrics_lost_total": Family(
        "counter",
        "Observations that were not recorded: queue full, or not a finite number.",
        ("pipeline", "stage"),
    ),
    "pipeline_build_info": Family(
        "gauge", "Processes that run this build.", ("pipeline", *BUILD_LABELS)
    ),
}


class StageMetrics:
    """The metrics of one process of one stage. Construct it in ``initialize``, as its last step.

    ``model`` is ``<pipeline>_<stage>``, stage being preprocess or postprocess. The pipeline's name
    becomes the label ``pipeline``.
    """

    def __init__(self, pb_utils: Any, model: str, version: str) -> None:
        self.pipeline, _, self.stage = model.rpartition("_")
        if self.stage not in STAGES:
            raise ValueError(f"model name {model!r}: want <pipeline>_{{{','.join(STAGES)}}}")
        self._labels = {
            "pipeline": self.pipeline,
            "stage": self.stage,
            "model": model,
            "version": str(version),
        }
        self._families = {
            name: pb_utils.MetricFamily(
                name=name,
                description=family.description,
                kind=getattr(pb_utils.MetricFamily, family.kind.upper()),
            )
            for name, family in FAMILIES.items()
            if self.stage in family.stages
        }
        self._series: dict[tuple[str, str], Series] = {}
        for name in self._families:
            self._create_series(name)
        self._gauges: list[Any] = []
        self._raise_gauge("pipeline_stage_instances", {})
        lost = self._series["pipeline_metrics_lost_total", ""]
        self._recorder = Recorder(lost, pb_utils.Logger.log_error)
        _KEPT_FOR_EVER.append(self)

    def build_info(self, **labels: str) -> None:
        """Publish what runs. Keys: BUILD_LABELS; a missing one reads ``unknown``."""
        known = {label: _label_value(labels.get(label, "")) for label in BUILD_LABELS}
        self._raise_gauge("pipeline_build_info", known)

    def input(self, size_bytes: int, megapixels: float | None) -> None:
        """One received image; ``megapixels`` is None where no header could be read."""
        self._record("pipeline_input_bytes", size_bytes)
        if megapixels is not None:
            self._record("pipeline_input_megapixels", megapixels)

    def preprocess_steps(self, decode_s: float, resize_s: float, normalise_s: float) -> None:
        """Durations of one image's steps, in seconds; 0 for a step left to the graph."""
        name = "pipeline_preprocess_step_duration_seconds"
        for step, duration_s in zip(STEPS, (decode_s, resize_s, normalise_s), strict=True):
            self._record(name, duration_s, step)

    def image_error(self, code: str) -> None:
        """One image failed in this stage; a code outside the catalogue counts as INTERNAL."""
        known = code if code in ERROR_CODES else InternalError.code
        self._record("pipeline_errors_total", 1, known)

    def top1_confidence(self, confidence: float) -> None:
        """The best class's probability of one image, 0..1, before the threshold."""
        self._record("pipeline_top1_confidence", confidence)

    def below_threshold(self, images: int) -> None:
        """So many images of a request ended without a prediction above the threshold."""
        self._record("pipeline_results_below_threshold_total", images)

    def stage_done(self, duration_s: float) -> None:
        """This stage spent ``duration_s`` seconds on one request."""
        self._record("pipeline_stage_duration_seconds", duration_s)

    def request_done(self, codes: Sequence[str], end_to_end_s: float) -> None:
        """One request is answered; ``codes`` holds one entry per image, empty = no error."""
        outcomes = [_outcome(code) for code in codes]
        for outcome in set(outcomes):
            self._record("pipeline_images_total", outcomes.count(outcome), outcome)
        worst = max(outcomes, key=IMAGE_OUTCOMES.index, default="ok")
        self._record("pipeline_requests_total", 1, worst)
        self._record("pipeline_images_per_request", len(codes))
        self._record("pipeline_request_duration_seconds", end_to_end_s)

    def request_refused(self) -> None:
        """One request was answered with TritonError because the request itself is malformed."""
        self._record("pipeline_requests_total", 1, "refused")

    def close(self) -> None:
        """Send what is queued, then take this process off the gauges."""
        self._recorder.close()
        for gauge in self._gauges:
            gauge.increment(-1.0)
        self._gauges = []

    def _record(self, name: str, value: float, varying: str = "") -> None:
        self._recorder.record(self._series[name, varying], value)

    def _create_series(self, name: str) -> None:
        family = FAMILIES[name]
        if family.kind == "gauge":
            return
        label, values = family.split or ("", ("",))
        for value in values:
            metric = self._metric(name, {label: value} if label else {})
            is_counter = family.kind == "counter"
            self._series[name, value] = Series(metric, is_counter, family.is_sampled)

    def _raise_gauge(self, name: str, own_labels: Mapping[str, str]) -> None:
        gauge = self._metric(name, own_labels)
        gauge.increment(1.0)
        self._gauges.append(gauge)

    def _metric(self, name: str, own_labels: Mapping[str, str]) -> Any:
        family = FAMILIES[name]
        labels = {label: self._labels[label] for label in family.labels if label in self._labels}
        labels.update(own_labels)
        if family.buckets:
            return self._families[name].Metric(labels=labels, buckets=list(family.buckets))
        return self._families[name].Metric(labels=labels)


def _outcome(code: str) -> str:
    if not code:
        return "ok"
    return "server_error" if code in _SERVER_FAULTS else "client_error"


def _label_value(value: object) -> str:
    text = re.sub(r"[^ -~]", "?", str(value))[:_MAX_LABEL_CHARACTERS]
    return text or "unknown"
