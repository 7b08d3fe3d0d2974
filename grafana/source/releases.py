"""Page 4: what is served, what changed, and did the change do harm?"""

from __future__ import annotations

from grafana.source.dashboard import Dashboard, Row
from grafana.source.fields import Query, Thresholds
from grafana.source.panel_types import Stat, StateTimeline, Table
from grafana.source.panels import Panel
from grafana.source.promql import ENSEMBLE, PIPELINE, STEPS, by_stage
from grafana.source.shared import ANNOTATIONS, JOB_VARIABLE, PIPELINE_VARIABLE
from grafana.source.versions import SERVED, VERSION, version_panels

_BUILD = (
    f"sum by (git, config, weights, recipe, onnx_sha256) (pipeline_build_info{{{PIPELINE}}}) > 0"
)
_ANY_IS_BAD = Thresholds("green", ((1, "red"),))


def _counts() -> tuple[Panel, ...]:
    expected = 'pipeline:expected_model:info{pipeline="$pipeline"}'
    missing = f"{expected} unless on (model) {SERVED}"
    dead = f'increase(nv_inference_request_failure{{{STEPS},reason="BACKEND"}}[$__range])'
    return (
        Stat(
            title="Expected models missing",
            description=(
                "Models that must be served and are not. The load failed; the server's log says "
                "why (often an engine built for another GPU)."
            ),
            unit="short",
            queries=(Query(f"count({missing}) or vector(0)"),),
            thresholds=_ANY_IS_BAD,
            filled=True,
            width=6,
            always_has_data=True,
        ),
        Stat(
            title="Builds at work",
            description=(
                "Different builds that Python stages were loaded with, listed below. Two for long: "
                "some process still runs the old release."
            ),
            unit="short",
            queries=(Query(f"count({_BUILD})"),),
            thresholds=Thresholds("green", ((2, "yellow"),)),
            filled=True,
            width=6,
            always_has_data=True,
        ),
        Stat(
            title="Failures in model code",
            description=(
                "Failed executions of single models in the time range: a dead Python stub or a "
                "failing network. A dead stub never comes back by itself: restart the container."
            ),
            unit="short",
            queries=(Query(f"sum({dead})"),),
            thresholds=_ANY_IS_BAD,
            decimals=0,
            filled=True,
            width=6,
            always_has_data=True,
        ),
        Stat(
            title="Counter resets",
            description=(
                "How often the ensemble began to count anew in the time range: a restart, or an "
                "unload and load. A reload in place does not count."
            ),
            unit="short",
            queries=(Query(f"sum(resets(nv_inference_request_success{{{ENSEMBLE}}}[$__range]))"),),
            thresholds=Thresholds("green", ((1, "yellow"),)),
            decimals=0,
            filled=True,
            width=6,
            always_has_data=True,
        ),
    )


def _served() -> tuple[Panel, ...]:
    return (
        Table(
            title="Served now",
            description="Every model version that answers, and on how many servers.",
            unit="short",
            queries=(Query(f"count by (model, version) ({SERVED})"),),
            columns={"model": "Model", "version": "Version", "Value": "Servers"},
            widths={"Version": 80, "Servers": 80},
            width=8,
            always_has_data=True,
        ),
        Table(
            title="Build",
            description="What the Python stages were loaded with; ideally one row.",
            unit="short",
            queries=(
                Query(f'label_replace({_BUILD}, "onnx", "$1", "onnx_sha256", "(.{{1,12}}).*")'),
            ),
            columns={
                "git": "Commit",
                "config": "Configuration",
                "weights": "Weights",
                "recipe": "Recipe",
                "onnx": "ONNX sha256",
                "Value": "Processes",
            },
            widths={"Commit": 90, "Configuration": 120, "ONNX sha256": 130, "Processes": 100},
            width=16,
            always_has_data=True,
        ),
    )


def _timeline() -> Panel:
    return StateTimeline(
        title="Versions over time",
        description="A bar as long as a version is served; a gap is a crash, reload or restart.",
        unit="short",
        queries=(Query(by_stage(f"count by (model, version) ({SERVED})"), VERSION),),
        thresholds=Thresholds("green"),
        width=24,
        always_has_data=True,
    )


RELEASES = Dashboard(
    uid="triton-releases",
    title="Triton / Models and releases",
    description="What is served, since when, and how versions compare.",
    variables=(JOB_VARIABLE, PIPELINE_VARIABLE),
    annotations=ANNOTATIONS,
    rows=(
        Row(_counts(), height=4),
        Row(_served(), height=6),
        Row((_timeline(),), height=6),
        Row(version_panels(), title="Version against version"),
    ),
    time_from="now-6h",
)
