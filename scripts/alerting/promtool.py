"""Unit tests of alerts in promtool's format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alerting.rule import Alert, Group
from alerting.settings import Settings


@dataclass(frozen=True)
class Firing:
    """One expected alert: the labels it has besides the rule's own, and its printed value."""

    labels: Mapping[str, str]
    value: str = ""
    rule_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Series (selector → promtool's value notation, one value a minute) and what must fire when.

    ``fires`` is expected at ``minute`` and, where that is the first minute, nothing one earlier;
    ``later`` lists further minutes with their expectation.
    """

    alert: str
    why: str
    series: Mapping[str, str]
    minute: int
    fires: Sequence[Firing] = ()
    later: Mapping[int, Sequence[Firing]] = field(default_factory=dict)
    is_first_minute: bool = True


def test_file(
    group: Group,
    cases: Sequence[Case],
    settings: Settings,
    rule_files: list[str],
    recording: Sequence[Group],
) -> dict[str, Any]:
    """promtool's test file for one group of alerts, evaluated after the recording groups."""
    alerts = [rule for rule in group.rules if isinstance(rule, Alert)]
    return {
        "rule_files": rule_files,
        "evaluation_interval": "1m",
        "group_eval_order": [*(records.name for records in recording), group.name],
        "tests": [_test(case, alerts, settings.runbook_url) for case in cases],
    }


def _test(case: Case, alerts: Sequence[Alert], runbook_url: str) -> dict[str, Any]:
    rules = [alert for alert in alerts if alert.name == case.alert]
    expectations: dict[int, Sequence[Firing]] = {case.minute: case.fires, **case.later}
    if case.fires and case.is_first_minute and case.minute > 0:
        expectations[case.minute - 1] = ()
    return {
        "name": f"{case.alert} {'fires' if case.fires else 'is silent'}: {case.why}",
        "interval": "1m",
        "input_series": [
            {"series": selector, "values": values} for selector, values in case.series.items()
        ],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": case.alert,
                "exp_alerts": [_expected(firing, rules, runbook_url) for firing in firings],
            }
            for minute, firings in sorted(expectations.items())
        ],
    }


def _expected(firing: Firing, rules: Sequence[Alert], runbook_url: str) -> dict[str, Any]:
    wanted = firing.rule_labels.items()
    rule = next(rule for rule in rules if wanted <= rule.labels.items())
    annotations = {
        key: _filled(text, firing) for key, text in rule.annotations(runbook_url).items()
    }
    labels = {**firing.labels, "severity": rule.severity, **rule.labels}
    return {"exp_labels": labels, "exp_annotations": annotations}


def _filled(template: str, firing: Firing) -> str:
    text = re.sub(r"{{ \$labels\.(\w+) }}", lambda match: firing.labels[match[1]], template)
    return re.sub(r"{{ \$value[^}]*}}", firing.value, text)
