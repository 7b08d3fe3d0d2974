"""Each alert, and each recording rule it reads, is broken on purpose: its unit test must notice."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerting import promtool as unit_tests
from alerting.cases import cases_of_groups
from alerting.recording import recording_groups
from alerting.render import alert_groups
from alerting.rule import Alert, Group, Record
from alerting.settings import read_settings
from grafana.source.lint_promql import uses_of

PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = read_settings([PROJECT / ".env.example"], PROJECT / "model_repository")
CASES = cases_of_groups(SETTINGS)
RECORDS = [
    rule for group in recording_groups(SETTINGS) for rule in group.rules if isinstance(rule, Record)
]
ALERTS = [
    (group.name, rule)
    for group in alert_groups(SETTINGS)
    for rule in group.rules
    if isinstance(rule, Alert)
]

_THRESHOLD = re.compile(r"(?<= [></] )\d+(?:\.\d+)?|(?<=>= )\d+")
_MATCHER = re.compile(r'\b(model|reason|outcome|code|config|job)(=~|!~|!=|=)"([^"]+)"')
_LONG = "its short window only ends the alert; a case would need hours of data"
# Changes that no case notices, with the reason.
EQUIVALENT = {
    (f"{alert}{long}", f"record-{ratio}:ratio_rate{short}"): _LONG
    for alert, ratio in (
        ("PipelineAvailabilityBudgetBurn", "pipeline:slo_availability_errors"),
        ("PipelineLatencyBudgetBurn", "pipeline:slo_latency_slow"),
    )
    for long, short in (("1d", "2h"), ("3d", "6h"))
}


def name_of(alert: Alert) -> str:
    return alert.name + alert.labels.get("window", "")


def mutants(
    alert: Alert, records: Sequence[Record]
) -> Iterator[tuple[str, Alert, Sequence[Record]]]:
    """What is changed, the alert, and the recording rules before it."""
    for number, match in enumerate(_THRESHOLD.finditer(alert.expr)):
        raised = f"{float(match[0]) * 1000 + 5:g}"
        yield f"raise-{number}", _with_expr(alert, match, raised), records
    lowered = _THRESHOLD.sub(lambda match: f"{float(match[0]) / 4 - 0.001:g}", alert.expr)
    if lowered != alert.expr:
        yield "lower", replace(alert, expr=lowered), records
    else:
        yield "never", replace(alert, expr=f"({alert.expr}) and on () (vector(1) > 2)"), records
    for number, match in enumerate(_MATCHER.finditer(alert.expr)):
        label, operator, value = match.groups()
        wrong = {
            "=": f'{label}="{value}x"',
            "=~": f'{label}=~"({value})x"',
            "!=": f'{label}="{value}"',
            "!~": f'{label}=~"{value}"',
        }[operator]
        yield f"{label}-{number}", _with_expr(alert, match, wrong), records
    yield "hold", replace(alert, hold="0m" if alert.hold != "0m" else "40m"), records
    for record in records:
        if record.expr == "vector(1)":
            continue  # which models are expected: the alerts' own labels show it
        changed = replace(record, expr=f"({record.expr}) * 4")
        others = [changed if each is record else each for each in records]
        yield f"record-{record.name}{''.join(record.labels.values())}", alert, others


def _with_expr(alert: Alert, match: re.Match[str], text: str) -> Alert:
    return replace(alert, expr=alert.expr[: match.start()] + text + alert.expr[match.end() :])


def records_of(alert: Alert) -> list[Record]:
    """The recording rules that an alert reads, and those that they read, in order."""
    needed: set[str] = set()
    names = {use.name for use in uses_of(alert.expr)}
    while reading := [rule for rule in RECORDS if rule.name in names - needed]:
        needed |= {rule.name for rule in reading}
        names = {use.name for rule in reading for use in uses_of(rule.expr)}
    return [rule for rule in RECORDS if rule.name in needed]


def write_test(
    folder: Path, name: str, group: str, alert: Alert, records: Sequence[Record]
) -> Path:
    """A promtool test of one alert with its cases; returns its path."""
    rules = folder / f"{name}.rules.yml"
    before = Group("records", tuple(records))
    groups = [each.to_yaml(SETTINGS.runbook_url) for each in (before, Group(group, (alert,)))]
    rules.write_text(yaml.safe_dump({"groups": [g for g in groups if g["rules"]]}))
    return rules


def cases_of(group: str, alert: Alert, rules: Path) -> dict[str, Any]:
    """The original alert's cases; of an objective's four burn rates only the alert's own."""
    cases = [case for case in CASES[group] if case.alert == alert.name]
    rule_group = next(g for g in alert_groups(SETTINGS) if g.name == group)
    tests = unit_tests.test_file(rule_group, cases, SETTINGS, [rules.name], [])
    tests["group_eval_order"] = ["records", group]
    for check in (check for test in tests["tests"] for check in test["alert_rule_test"]):
        check["exp_alerts"] = [
            each
            for each in check["exp_alerts"]
            if alert.labels.items() <= each["exp_labels"].items()
        ]
    return tests


def verdicts(promtool: str, tests: dict[str, Path]) -> dict[str, bool]:
    """Which of the test files pass, by one run of promtool."""
    done = subprocess.run(
        [promtool, "test", "rules", *tests.values()], capture_output=True, text=True, check=False
    )
    passed: dict[str, bool] = {}
    for part in (done.stdout + done.stderr).split("Unit Testing:")[1:]:
        path, _, outcome = part.strip().partition("\n")
        name = next(name for name, file in tests.items() if str(file) == path.strip())
        passed[name] = outcome.strip().startswith("SUCCESS")
    return passed


@pytest.mark.parametrize(("group", "alert"), ALERTS, ids=[name_of(alert) for _, alert in ALERTS])
def test_every_mutation_of_an_alert_is_noticed(
    promtool: str, tmp_path: Path, group: str, alert: Alert
) -> None:
    records = records_of(alert)
    versions = [("original", alert, records), *mutants(alert, records)]
    tests = {}
    for number, (what, mutant, before) in enumerate(versions):
        rules = write_test(tmp_path, f"{number}", group, mutant, before)
        tests[what] = tmp_path / f"{number}.test.yml"
        tests[what].write_text(yaml.safe_dump(cases_of(group, alert, rules)))
    passed = verdicts(promtool, tests)
    assert passed.keys() == tests.keys()
    assert passed.pop("original"), "the alert itself fails its cases"
    survivors = [
        what for what, ok in passed.items() if ok and (name_of(alert), what) not in EQUIVALENT
    ]
    assert survivors == []
