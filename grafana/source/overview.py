"""Page 1: is the service healthy? Rate, errors, duration, and the objectives they are held to."""

from __future__ import annotations

from grafana.source.dashboard import Dashboard, Row
from grafana.source.fields import IMAGES_PER_S, NEUTRAL, Query, Thresholds, high_is_bad
from grafana.source.objectives import LATENCY_S, burn_rates, headline, verdict
from grafana.source.panel_types import Heatmap, Stat, Table, TimeSeries
from grafana.source.panels import Panel
from grafana.source.promql import (
    END_TO_END,
    JOB,
    MODELS,
    PIPELINE,
    buckets,
    by_stage,
    quantiles,
    rate_by,
)
from grafana.source.shared import (
    ANNOTATIONS,
    CODE_COLOURS,
    FIRING,
    JOB_VARIABLE,
    LATENCY_OBJECTIVE,
    OUTCOME_COLOURS,
    PIPELINE_VARIABLE,
    QUANTILE_COLOURS,
    REASON_COLOURS,
    SEVERITY_COLOURS,
    STAGE_COLOURS,
)


def _traffic() -> tuple[Panel, ...]:
    rate = f"sum(rate(pipeline_requests_total{{{PIPELINE}}}[$__rate_interval]))"
    return (
        Stat(
            title="Requests per second",
            description="Requests answered by the pipeline, whatever the outcome.",
            unit="reqps",
            queries=(Query(rate),),
            thresholds=NEUTRAL,
            width=3,
            always_has_data=True,
        ),
        Stat(
            title="Alerts",
            description="Alerts that fire now, of any severity; listed below.",
            unit="short",
            queries=(Query(f"count({FIRING}) or vector(0)"),),
            thresholds=high_is_bad(1, 3),
            decimals=0,
            width=3,
            always_has_data=True,
        ),
    )


def _red() -> tuple[Panel, ...]:
    outcomes = rate_by("outcome", f"pipeline_requests_total{{{PIPELINE}}}")
    errors = rate_by("code", f"pipeline_errors_total{{{PIPELINE}}}")
    failed = f"sum(rate(pipeline:failed_requests:total{{{PIPELINE}}}[$__rate_interval]))"
    refused = f'pipeline_requests_total{{{PIPELINE},outcome="refused"}}[$__rate_interval]'
    lost = f"clamp_min({failed} - (sum(rate({refused})) or vector(0)), 0)"
    return (
        TimeSeries(
            title="Requests by outcome",
            description=(
                "ok: every image answered. client_error: at least one bad image. server_error: at "
                "least one image failed by our fault. refused: the request itself was malformed. "
                "lost: failed before our code could answer, by a dead process or a full queue."
            ),
            unit="reqps",
            queries=(Query(outcomes, "{{outcome}}"), Query(lost, "lost")),
            colours=OUTCOME_COLOURS,
            minimum=0,
            stacked=True,
            always_has_data=True,
        ),
        TimeSeries(
            title="Latency p50, p95, p99",
            description="End to end, all requests. The dashed line is the latency objective.",
            unit="s",
            queries=(*quantiles(END_TO_END, PIPELINE, 0.5, 0.95, 0.99), LATENCY_OBJECTIVE),
            thresholds=high_is_bad(LATENCY_S / 2, LATENCY_S),
            colours=QUANTILE_COLOURS,
            dashed=("objective",),
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Image errors by code",
            description=(
                "Images answered with an error, by its code. INTERNAL and INVALID_MODEL_OUTPUT "
                "are ours, every other code is the client's."
            ),
            unit=IMAGES_PER_S,
            queries=(Query(f"{errors} > 0", "{{code}}"),),
            colours=CODE_COLOURS,
            minimum=0,
            no_value="No errors",
            bars=True,
            stacked=True,
            always_has_data=True,
        ),
    )


def _alerts() -> Table:
    each = f"sum by (severity, alertname, instance, model, stage, code, window) ({FIRING})"
    about = '"about", " ", "model", "stage", "code", "window", "instance"'
    return Table(
        title="Firing alerts",
        description="What fires now. docs/runbook.md has a section for each name.",
        unit="none",
        queries=(Query(f"label_join({each}, {about})"),),
        columns={"severity": "Severity", "alertname": "Alert", "about": "About"},
        coloured={"Severity": SEVERITY_COLOURS},
        widths={"Severity": 70, "Alert": 225},
        no_value="No alert fires",
        width=10,
    )


def _heatmap() -> Heatmap:
    return Heatmap(
        title="Latency distribution",
        description="Requests per latency bucket: two bands mean two kinds of requests.",
        unit="s",
        queries=(Query(buckets(END_TO_END, PIPELINE), "{{le}}"),),
        width=7,
        always_has_data=True,
    )


def _triton_view() -> tuple[Panel, ...]:
    return (
        TimeSeries(
            title="Triton: failed ensemble requests",
            description=(
                "Failures as Triton counts them, already halved since it counts each ensemble "
                "failure twice. Refused requests are in it; what is more than those died before "
                "our code. Malformed requests that Triton itself turns away are counted nowhere."
            ),
            unit="reqps",
            queries=(
                Query(
                    rate_by("reason", f"pipeline:failed_requests:total{{{PIPELINE}}}"),
                    "{{reason}}",
                ),
            ),
            thresholds=high_is_bad(0.01, 0.1),
            colours=REASON_COLOURS,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Waiting requests",
            description="Requests in each model's queue at the scrape. Growth means saturation.",
            unit="short",
            queries=(
                Query(
                    by_stage(f"sum by (model) (nv_inference_pending_request_count{{{MODELS}}})"),
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
            title="Servers that answer the scrape",
            description="1 per Triton server that is up.",
            unit="short",
            queries=(Query(f"sum(up{{{JOB}}})", "up"),),
            thresholds=Thresholds("red", ((1, "green"),)),
            colours={"up": "green"},
            decimals=0,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
    )


OVERVIEW = Dashboard(
    uid="triton-overview",
    title="Triton / Overview",
    description="Is the service healthy: rate, errors, duration, objectives, alerts.",
    variables=(JOB_VARIABLE, PIPELINE_VARIABLE),
    annotations=ANNOTATIONS,
    rows=(
        Row((verdict(), *headline(), *_traffic()), height=5),
        Row(_red(), height=9),
        Row((burn_rates(), _alerts(), _heatmap())),
        Row(_triton_view(), height=6, title="As Triton sees it"),
    ),
)
