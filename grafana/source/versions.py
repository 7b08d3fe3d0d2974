"""Version against version: the lower half of the releases page."""

from __future__ import annotations

from grafana.source.fields import Query, Thresholds
from grafana.source.panel_types import TimeSeries
from grafana.source.panels import Panel
from grafana.source.promql import (
    JOB,
    MODELS,
    PIPELINE,
    STAGE_TIME,
    by_stage,
    mean,
    quantile,
    rate_by,
    ratio_of_rates,
)

SERVED = f"nv_inference_request_success{{{MODELS}}}"
VERSION = "{{stage}} v{{version}}"


def version_panels() -> tuple[Panel, ...]:
    requests = by_stage(rate_by("model, version", SERVED))
    measured = f'{JOB},model=~"${{pipeline}}_(inference|ensemble)"'
    duration = f"nv_inference_request_duration_us{{{measured}}}"
    finished = f"nv_inference_request_success{{{measured}}}"
    confidence = mean("pipeline_top1_confidence", PIPELINE, "version")
    return (
        TimeSeries(
            title="Requests, by version",
            description="Where the traffic goes. During a release both versions have some.",
            unit="reqps",
            queries=(Query(requests, VERSION),),
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Mean time, by version",
            description="Queue and work per request, as Triton measures it: old beside new.",
            unit="s",
            queries=(
                Query(
                    by_stage(f"{ratio_of_rates(duration, finished, 'model, version')} / 1e6"),
                    VERSION,
                ),
            ),
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Stage time p95, by version",
            description="Python stages: a slower release shows here first.",
            unit="s",
            queries=(
                Query(
                    quantile(0.95, STAGE_TIME, PIPELINE, "stage, version"),
                    VERSION,
                ),
            ),
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Failures, by version",
            description="Failed requests per model version, each ensemble failure counted once.",
            unit="reqps",
            queries=(
                Query(
                    by_stage(
                        "sum by (model, version) "
                        f"(model:nv_inference_request_failure:rate5m{{{MODELS}}})"
                    ),
                    VERSION,
                ),
            ),
            thresholds=Thresholds("green", ((1e-9, "red"),)),
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Mean confidence, by version",
            description="Best class, mean over the images. A jump at a release: see the recipe.",
            unit="percentunit",
            queries=(Query(confidence, "postprocess v{{version}}"),),
            maximum=1,
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Python instances",
            description=(
                "Live processes per stage. Doubled for moments in a reload; higher for long: a "
                "killed process was never taken off, restart the container."
            ),
            unit="short",
            queries=(
                Query(
                    f"sum by (stage, version) (pipeline_stage_instances{{{PIPELINE}}})",
                    VERSION,
                ),
                Query(
                    'max(pipeline:expected_stage_instances:count{model=~"${pipeline}_.+"})',
                    "expected per server",
                ),
            ),
            colours={"expected per server": "red"},
            dashed=("expected per server",),
            decimals=0,
            minimum=0,
            always_has_data=True,
        ),
    )
