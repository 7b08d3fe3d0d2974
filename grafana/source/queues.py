"""Queues, batches and instances: the middle of the stages page."""

from __future__ import annotations

from grafana.source.fields import Query, Thresholds, high_is_bad
from grafana.source.panel_types import TimeSeries
from grafana.source.panels import Panel
from grafana.source.promql import (
    INFERENCE,
    MODELS,
    PIPELINE,
    STAGE_TIME,
    STEPS,
    by_stage,
    ratio_of_rates,
    triton_seconds,
)
from grafana.source.shared import REASON_COLOURS, STAGE_COLOURS


def queue_panels() -> tuple[Panel, ...]:
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
                Query(f"sum({triton_seconds(part, INFERENCE)})", name)
                for name, part in parts.items()
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
            queries=(Query(by_stage(triton_seconds("queue", STEPS)), "{{stage}}"),),
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
            title="Requests at work in one Python instance",
            description=(
                "Mean number of requests that an instance works on at once. Postprocess takes one "
                "at a time, so 1 is its limit; preprocess works on several in its threads."
            ),
            unit="short",
            queries=(
                Query(
                    f"sum by (stage) (rate({STAGE_TIME}_sum{{{PIPELINE}}}[$__rate_interval])) / "
                    f"sum by (stage) (pipeline_stage_instances{{{PIPELINE}}})",
                    "{{stage}}",
                ),
            ),
            thresholds=high_is_bad(0.7, 1),
            colours=STAGE_COLOURS,
            decimals=2,
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
            colours={f"/.* {reason}/": colour for reason, colour in REASON_COLOURS.items()},
            minimum=0,
            no_value="No failures",
            bars=True,
            stacked=True,
            width=8,
        ),
    )
