"""Rules read only series that exist: on a real scrape, recorded, or documented for other hosts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from exposition import Scrape
from gpu_exporter import DCGM_METRICS, TRITON_GPU_METRICS
from prometheus_process import PrometheusProcess

from embedded.server import EmbeddedServer
from grafana.source.lint_promql import uses_of

PROMETHEUS_FOLDER = Path(__file__).resolve().parents[2] / "prometheus"
# Written by a release for the node exporter's textfile collector.
OPTIONAL = {"pipeline_release_success", *DCGM_METRICS, *TRITON_GPU_METRICS}


def rules() -> list[dict[str, Any]]:
    files = [*PROMETHEUS_FOLDER.glob("rules/*.yml"), *PROMETHEUS_FOLDER.glob("alerts/*.yml")]
    return [
        rule
        for file in sorted(files)
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]


RECORDED = {rule["record"] for rule in rules() if "record" in rule}


@pytest.fixture(scope="module")
def existing(
    server: EmbeddedServer, prometheus: PrometheusProcess, traffic: tuple[Scrape, Scrape]
) -> set[str]:
    """Names on Triton's page and on Prometheus' own, and what Prometheus adds to a scrape."""
    own = Scrape.of(f"{prometheus.url}/metrics")
    return Scrape.of(server.metrics_url).names | own.names | {"up"}


@pytest.mark.parametrize(
    "rule", rules(), ids=lambda rule: rule.get("record") or rule["alert"] + str(rule["labels"])
)
def test_every_metric_of_a_rule_exists(rule: dict[str, Any], existing: set[str]) -> None:
    names = {use.name for use in uses_of(rule["expr"])}
    unknown = names - existing - RECORDED - OPTIONAL
    # Present only where an Alertmanager is configured.
    assert unknown <= {"prometheus_notifications_errors_total"}


def test_every_recorded_series_is_read_or_documented_for_dashboards() -> None:
    named_like_a_convention = [name for name in RECORDED if name.count(":") == 2]
    assert len(named_like_a_convention) == len(RECORDED)


def test_our_metrics_pass_promtools_lint(
    promtool: str, server: EmbeddedServer, traffic: tuple[Scrape, Scrape]
) -> None:
    page = Scrape.of(server.metrics_url).text
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    complaints = (checked.stdout + checked.stderr).splitlines()
    assert [line for line in complaints if not line.startswith("nv_")] == []
    assert any(line.startswith("nv_") for line in complaints), "did promtool read the page?"


def runbook_queries() -> list[str]:
    text = (PROMETHEUS_FOLDER.parent / "docs" / "runbook.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
    return sorted({query for block in blocks for query in block.strip().splitlines()})


def test_every_query_of_the_runbook_runs(
    prometheus: PrometheusProcess, traffic: tuple[Scrape, Scrape]
) -> None:
    for query in runbook_queries():
        prometheus.query(query)
