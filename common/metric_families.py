"""Every metric family of ours, on Triton's own /metrics: names, kinds, labels and buckets.

Label values come from fixed sets, never from a request. Prometheus 3 rewrites a whole bound's
``le="1"`` to ``le="1.0"``, so bounds that rules or panels select are not whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import ERROR_CODES

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
    "pipeline_shm_used_bytes": Family(
        "gauge",
        "Shared memory in use, all processes of the host or container.",
        stages=(POSTPROCESS,),
    ),
    "pipeline_shm_size_bytes": Family("gauge", "Shared memory there is.", stages=(POSTPROCESS,)),
    "pipeline_build_info": Family(
        "gauge", "Processes that run this build.", ("pipeline", *BUILD_LABELS)
    ),
}
