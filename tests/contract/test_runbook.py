"""The runbook and the alerts name each other, and every query in it reads known series."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alerting.render import all_alerts
from alerting.settings import read_settings
from grafana.source.lint_promql import uses_of
from grafana.source.metric_names import (
    OPTIONAL_EXPORTERS,
    PROMETHEUS,
    TRITON,
    TRITON_GPU,
    own_names,
    recorded_names,
)

PROJECT = Path(__file__).resolve().parents[2]
TEXT = (PROJECT / "docs" / "runbook.md").read_text(encoding="utf-8")
SETTINGS = read_settings([PROJECT / ".env.example"], PROJECT / "model_repository")
ALERTS = {alert.name for alert in all_alerts(SETTINGS)}
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL))
QUERIES = [
    query
    for block in re.findall(r"```promql\n(.*?)```", TEXT, re.DOTALL)
    for query in block.strip().splitlines()
]
# Prometheus' own and the release's, read by alerts too; the live tests see the first three.
OTHERS = {
    "prometheus_config_last_reload_successful",
    "prometheus_rule_evaluation_failures_total",
    "prometheus_notifications_errors_total",
    "pipeline_release_success",
    "pipeline_release_timestamp_seconds",
}
KNOWN = (
    own_names().keys()
    | recorded_names().keys()
    | TRITON.keys()
    | TRITON_GPU.keys()
    | PROMETHEUS.keys()
    | OPTIONAL_EXPORTERS.keys()
    | OTHERS
)


def test_runbook_and_alerts_hold_the_same_names() -> None:
    assert set(SECTIONS) == ALERTS


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_a_section_says_meaning_causes_queries_and_what_to_do(name: str) -> None:
    section = SECTIONS[name]
    for part in ("**Meaning.**", "**Likely causes.**", "**Look.**", "```promql", "**Do.**"):
        assert part in section, part


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_the_link_of_an_alert_is_the_anchor_of_its_heading(name: str) -> None:
    alert = next(alert for alert in all_alerts(SETTINGS) if alert.name == name)
    page, _, anchor = alert.annotations(SETTINGS.runbook_url)["runbook_url"].partition("#")
    assert (PROJECT / page).exists()
    # GitHub's anchor of a heading without spaces or signs.
    assert re.search(rf"^### {anchor}$", TEXT, re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_promql_over_known_series(query: str) -> None:
    assert {use.name for use in uses_of(query)} <= KNOWN


def test_alerts_named_in_the_text_exist() -> None:
    mentioned = set(re.findall(r"\b(?:Triton|Pipeline)[A-Z]\w+", TEXT))
    assert mentioned <= ALERTS


def test_make_targets_named_in_the_text_exist() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`make ([a-z-]+)", TEXT)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
