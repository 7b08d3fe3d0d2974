"""Our Prometheus metrics, published on Triton's own /metrics through ``pb_utils.MetricFamily``.

common/metric_families.py is the whole list. Every counter is born at 0, so that ``increase()``
sees the first event.

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

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import CATALOGUE, ERROR_CODES, InternalError
from common.metric_families import (
    BUILD_LABELS,
    FAMILIES,
    IMAGE_OUTCOMES,
    POSTPROCESS,
    PREPROCESS,
    STAGES,
    STEPS,
)
from common.recorder import Probe, Recorder, Series

_SERVER_FAULTS = frozenset(error.code for error in CATALOGUE if error.server_fault)
_MAX_LABEL_CHARACTERS = 120
_SHARED_MEMORY = "/dev/shm"
# Objects whose deletion would take a series from all processes; see the module docstring.
_KEPT_FOR_EVER: list[Any] = []


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
        steps = "pipeline_preprocess_step_duration_seconds"
        self._steps = [self._series[steps, s] for s in STEPS if self.stage == PREPROCESS]
        self._gauges: list[Any] = []
        self._raise_gauge("pipeline_stage_instances", {})
        lost = self._series["pipeline_metrics_lost_total", ""]
        self._recorder = Recorder(lost, pb_utils.Logger.log_error, self._probes())
        _KEPT_FOR_EVER.append(self)

    def build_info(self, **labels: str) -> None:
        """Publish what runs. Keys: BUILD_LABELS; a missing one reads ``unknown``."""
        known = {label: _label_value(labels.get(label, "")) for label in BUILD_LABELS}
        self._raise_gauge("pipeline_build_info", known)

    def input(self, size_bytes: int, megapixels: float | None) -> None:
        """One received image; ``megapixels`` is None where no header could be read."""
        size = self._series["pipeline_input_bytes", ""], size_bytes
        if megapixels is None:
            self._recorder.record(size)
        else:
            area = self._series["pipeline_input_megapixels", ""], megapixels
            self._recorder.record(size, area)

    def preprocess_steps(self, decode_s: float, resize_s: float, normalise_s: float) -> None:
        """Durations of one image's steps, in seconds; 0 for a step left to the graph."""
        decode, resize, normalise = self._steps
        self._recorder.record((decode, decode_s), (resize, resize_s), (normalise, normalise_s))

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

    def _probes(self) -> list[Probe]:
        if self.stage != POSTPROCESS or not os.path.isdir(_SHARED_MEMORY):
            return []
        return [
            Probe(self._metric("pipeline_shm_used_bytes", {}), lambda: shm_bytes()[0]),
            Probe(self._metric("pipeline_shm_size_bytes", {}), lambda: shm_bytes()[1]),
        ]

    def _record(self, name: str, value: float, varying: str = "") -> None:
        self._recorder.record((self._series[name, varying], value))

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


def shm_bytes(folder: str = _SHARED_MEMORY) -> tuple[float, float]:
    """Used and total bytes of the shared memory that tensors travel through."""
    status = os.statvfs(folder)
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    return float(used), float(status.f_blocks * status.f_frsize)


def _outcome(code: str) -> str:
    if not code:
        return "ok"
    return "server_error" if code in _SERVER_FAULTS else "client_error"


def _label_value(value: object) -> str:
    text = re.sub(r"[^ -~]", "?", str(value))[:_MAX_LABEL_CHARACTERS]
    return text or "unknown"
