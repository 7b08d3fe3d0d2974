"""What the four pages have in common: variables, annotations, colours."""

from __future__ import annotations

from grafana.source.dashboard import Annotation, Variable
from grafana.source.fields import Query
from grafana.source.promql import ENSEMBLE, JOB, PIPELINE

# Objectives are series too, so that a changed objective changes no panel.
AVAILABILITY_BUDGET = "scalar(1 - slo:availability:objective)"
LATENCY_BUDGET = "scalar(1 - slo:latency:objective)"
LATENCY_OBJECTIVE = Query("slo:latency:threshold_seconds", "objective")

OUTCOME_COLOURS = {
    "ok": "green",
    "client_error": "yellow",
    "refused": "orange",
    "server_error": "red",
    "lost": "dark-red",
}
SEVERITY_COLOURS = {"page": "red", "ticket": "orange", "none": "blue"}
QUANTILE_COLOURS = {"p50": "blue", "p95": "orange", "p99": "purple", "objective": "red"}
STAGE_COLOURS = {
    "preprocess": "blue",
    "inference": "green",
    "postprocess": "purple",
    "ensemble": "text",
}
# Warm and cold for the client's faults, red for ours.
CODE_COLOURS = {
    "CORRUPT_IMAGE": "orange",
    "EMPTY_INPUT": "purple",
    "IMAGE_TOO_LARGE": "light-blue",
    "INTERNAL": "red",
    "INVALID_BASE64": "yellow",
    "INVALID_MODEL_OUTPUT": "dark-red",
    "UNSUPPORTED_FORMAT": "blue",
}
REASON_COLOURS = {"BACKEND": "red", "CANCELED": "blue", "OTHER": "orange", "REJECTED": "purple"}

FIRING = 'ALERTS{alertstate="firing",alertname!="Watchdog"}'

JOB_VARIABLE = Variable(
    name="job",
    label="Job",
    query="label_values(nv_inference_request_success, job)",
    description="Scrape job of the Triton servers.",
    multiple=True,
)
PIPELINE_VARIABLE = Variable(
    name="pipeline",
    label="Pipeline",
    query='label_values(pipeline_requests_total{job=~"$job"}, pipeline)',
    description="One ensemble with its stages; also the prefix of its model names.",
)
STAGE_VARIABLE = Variable(
    name="stage",
    label="Stage",
    query=f"label_values(pipeline_stage_duration_seconds_count{{{PIPELINE}}}, stage)",
    description="Stages that get a latency distribution of their own.",
    descending=True,  # preprocess before postprocess
    multiple=True,
)
INSTANCE_VARIABLE = Variable(
    name="instance",
    label="Instance",
    query='label_values(up{job=~"$job"}, instance)',
    description="Server (host and port of its metrics).",
    multiple=True,
)

_SERVED = f"group by (model, version) (nv_inference_request_success{{{JOB}}})"
_SERVED_BEFORE = f"group by (model, version) (nv_inference_request_success{{{JOB}}} offset 1m)"

ANNOTATIONS = (
    Annotation(
        name="Releases",
        expr=f"{_SERVED} unless {_SERVED_BEFORE}",
        title="Release",
        text="{{model}} version {{version}} is served",
        colour="blue",
    ),
    Annotation(
        name="Restarts",
        expr=(f"1 - up{{{JOB}}} > 0 or resets(nv_inference_request_success{{{ENSEMBLE}}}[1m]) > 0"),
        title="Restart",
        text="{{job}} {{instance}} was down or began counting anew",
        colour="purple",
    ),
    Annotation(
        name="Alerts",
        expr=FIRING,
        title="{{alertname}}",
        text="severity {{severity}}",
        colour="red",
    ),
)
