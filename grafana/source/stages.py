"""Page 2: where does a request's time go, and what do the images look like?"""

from __future__ import annotations

from grafana.source.dashboard import Dashboard, Row
from grafana.source.fields import Query, Thresholds, high_is_bad
from grafana.source.images import image_panels
from grafana.source.panel_types import Heatmap, TimeSeries
from grafana.source.panels import Panel
from grafana.source.promql import (
    INFERENCE,
    MODELS,
    PIPELINE,
    STEPS,
    buckets,
    by_stage,
    mean,
    quantile,
    ratio_of_rates,
)
from grafana.source.shared import (
    ANNOTATIONS,
    JOB_VARIABLE,
    PIPELINE_VARIABLE,
    STAGE_COLOURS,
    STAGE_VARIABLE,
)

_STAGE = "pipeline_stage_duration_seconds"


def _seconds(part: str, selector: str) -> str:
    """PromQL: mean seconds per request of one of Triton's microsecond counters, by model."""
    success = f"nv_inference_request_success{{{selector}}}"
    spent = f"nv_inference_{part}_duration_us{{{selector}}}"
    return f"{ratio_of_rates(spent, success, 'model')} / 1e6"


def _time() -> tuple[Panel, ...]:
    return (
        TimeSeries(
            title="Mean time of a request, by stage",
            description=(
                "Queue and work of each model as Triton measures it; the top edge is the whole "
                "request. The widest band is the stage to look at."
            ),
            unit="s",
            queries=(Query(by_stage(_seconds("request", STEPS)), "{{stage}}"),),
            colours=STAGE_COLOURS,
            minimum=0,
            stacked=True,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Stage time p95",
            description="Work of the Python stages per request, without the queue before them.",
            unit="s",
            queries=(Query(quantile(0.95, _STAGE, PIPELINE, "stage"), "{{stage}}"),),
            thresholds=high_is_bad(0.1, 0.25),
            colours=STAGE_COLOURS,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Preprocess, mean per image and step",
            description=(
                "What preprocess does with one image. Normalise is zero where the model's graph "
                "does it. From a random sample of the images."
            ),
            unit="s",
            queries=(
                Query(
                    mean("pipeline_preprocess_step_duration_seconds", PIPELINE, "step"), "{{step}}"
                ),
            ),
            colours={"decode": "blue", "resize": "orange", "normalise": "purple"},
            minimum=0,
            stacked=True,
            width=8,
            always_has_data=True,
        ),
    )


def _distribution() -> Panel:
    selector = f'{PIPELINE},stage="$stage"'
    return Heatmap(
        title="Time in $stage",
        description="Requests per bucket of the stage's own time; one panel per stage chosen.",
        unit="s",
        queries=(Query(buckets(_STAGE, selector), "{{le}}"),),
        repeat_by="stage",
        width=12,
        always_has_data=True,
    )


def _inference() -> tuple[Panel, ...]:
    parts = {
        "queue": "queue",
        "copy in": "compute_input",
        "compute": "compute_infer",
        "copy out": "compute_output",
    }
    return (
        TimeSeries(
            title="Inside inference, mean per request",
            description=(
                "Triton's four phases of the network itself. A queue wider than compute: more "
                "instances, larger batches or fewer clients."
            ),
            unit="s",
            queries=tuple(
                Query(f"sum({_seconds(part, INFERENCE)})", name) for name, part in parts.items()
            ),
            colours={
                "queue": "orange",
                "copy in": "light-blue",
                "compute": "green",
                "copy out": "purple",
            },
            minimum=0,
            stacked=True,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Mean queue time, by stage",
            description="How long a request waits for a free instance of each model.",
            unit="s",
            queries=(Query(by_stage(_seconds("queue", STEPS)), "{{stage}}"),),
            thresholds=high_is_bad(0.01, 0.05),
            colours=STAGE_COLOURS,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Waiting requests, by stage",
            description="Requests in each queue at the scrape; growth means saturation.",
            unit="short",
            queries=(
                Query(
                    by_stage(f"sum by (model) (nv_inference_pending_request_count{{{STEPS}}})"),
                    "{{stage}}",
                ),
            ),
            thresholds=high_is_bad(10, 20),
            colours=STAGE_COLOURS,
            decimals=0,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Mean batch size, by stage",
            description=(
                "Images per execution. Over 1 in inference means that the dynamic batcher joins "
                "requests."
            ),
            unit="short",
            queries=(
                Query(
                    by_stage(
                        ratio_of_rates(
                            f"nv_inference_count{{{STEPS}}}",
                            f"nv_inference_exec_count{{{STEPS}}}",
                            "model",
                        )
                    ),
                    "{{stage}}",
                ),
            ),
            colours=STAGE_COLOURS,
            decimals=1,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Busy share of the Python instances",
            description=(
                "Working time of a stage over the time its instances had. Near 1 requests start "
                "to queue."
            ),
            unit="percentunit",
            queries=(
                Query(
                    f"sum by (stage) (rate({_STAGE}_sum{{{PIPELINE}}}[$__rate_interval])) / "
                    f"sum by (stage) (pipeline_stage_instances{{{PIPELINE}}})",
                    "{{stage}}",
                ),
            ),
            thresholds=high_is_bad(0.7, 0.9),
            colours=STAGE_COLOURS,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Failures, by model and reason",
            description=(
                "Triton's failure counters, each ensemble failure counted once. BACKEND on a "
                "Python stage means a dead stub."
            ),
            unit="reqps",
            queries=(
                Query(
                    by_stage(
                        "sum by (model, reason) "
                        f"(model:nv_inference_request_failure:rate5m{{{MODELS}}}) > 0"
                    ),
                    "{{stage}} {{reason}}",
                ),
            ),
            thresholds=Thresholds("green", ((1e-9, "red"),)),
            shades_of="red",
            minimum=0,
            no_value="No failures",
            bars=True,
            stacked=True,
            width=8,
        ),
    )


STAGES = Dashboard(
    uid="triton-stages",
    title="Triton / Pipeline stages",
    description="Where a request's time goes, stage by stage, and what the images look like.",
    variables=(JOB_VARIABLE, PIPELINE_VARIABLE, STAGE_VARIABLE),
    annotations=ANNOTATIONS,
    rows=(
        Row(_time(), title="Time"),
        Row((_distribution(),)),
        Row(_inference(), height=7, title="Queues, batches, instances"),
        Row(image_panels(), height=7, title="Images and answers"),
    ),
)
