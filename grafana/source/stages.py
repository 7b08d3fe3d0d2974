"""Page 2: where does a request's time go, and what do the images look like?"""

from __future__ import annotations

from grafana.source.dashboard import Dashboard, Row
from grafana.source.fields import Query, high_is_bad
from grafana.source.images import image_panels
from grafana.source.panel_types import Heatmap, TimeSeries
from grafana.source.panels import Panel
from grafana.source.promql import (
    END_TO_END,
    INFERENCE,
    PIPELINE,
    PYTHON,
    STAGE_TIME,
    buckets,
    mean,
    quantile,
    triton_seconds,
)
from grafana.source.queues import queue_panels
from grafana.source.shared import (
    ANNOTATIONS,
    JOB_VARIABLE,
    PIPELINE_VARIABLE,
    STAGE_COLOURS,
    STAGE_VARIABLE,
)


def _time() -> tuple[Panel, ...]:
    return (
        TimeSeries(
            title="Where a request's time goes, mean",
            description=(
                "Work of the Python stages, inference with its queue, and the queues before the "
                "Python stages. The widest band is the stage to look at. The dashed line is the "
                "whole request from its arrival in preprocess; a gap is time between the stages."
            ),
            unit="s",
            queries=(
                Query(mean(STAGE_TIME, PIPELINE, "stage"), "{{stage}}"),
                Query(f"sum({triton_seconds('request', INFERENCE)})", "inference"),
                Query(f"sum({triton_seconds('queue', PYTHON)})", "queue before Python"),
                Query(mean(END_TO_END, PIPELINE, "pipeline"), "whole request"),
            ),
            colours={**STAGE_COLOURS, "queue before Python": "orange", "whole request": "text"},
            dashed=("whole request",),
            minimum=0,
            stacked=True,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Stage time p95",
            description="Work of the Python stages per request, without the queue before them.",
            unit="s",
            queries=(Query(quantile(0.95, STAGE_TIME, PIPELINE, "stage"), "{{stage}}"),),
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
        queries=(Query(buckets(STAGE_TIME, selector), "{{le}}"),),
        repeat_by="stage",
        width=12,
        always_has_data=True,
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
        Row(queue_panels(), height=7, title="Queues, batches, instances"),
        Row(image_panels(), height=8, title="Images and answers"),
    ),
)
