"""The generated files: path below prometheus/ → text."""

from __future__ import annotations

from typing import Any

import yaml

from alerting.cases import cases_of_groups
from alerting.pipeline_alerts import MONITORING, PIPELINE
from alerting.promtool import test_file
from alerting.recording import recording_groups
from alerting.rule import Alert, Group
from alerting.settings import Settings
from alerting.slo_alerts import slo_group
from alerting.triton_alerts import GPU, SERVER

RECORDING_FILE = "rules/recording.yml"
_HEADER = "# Generated: edit scripts/alerting/ or .env, then `make rules`.\n"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def alert_groups(settings: Settings) -> list[Group]:
    """All alerts, one file per group."""
    return [slo_group(settings), SERVER, PIPELINE, GPU, MONITORING]


def all_alerts(settings: Settings) -> list[Alert]:
    """Every alerting rule; an objective's four burn rates share their name."""
    groups = alert_groups(settings)
    return [rule for group in groups for rule in group.rules if isinstance(rule, Alert)]


def render(settings: Settings) -> dict[str, str]:
    """Recording rules, alerts and promtool's unit tests of them."""
    recording = recording_groups(settings)
    records = [group.to_yaml(settings.runbook_url) for group in recording]
    files = {RECORDING_FILE: _yaml({"groups": records})}
    for group in alert_groups(settings):
        alerts_file = f"alerts/{group.name}.yml"
        files[alerts_file] = _yaml({"groups": [group.to_yaml(settings.runbook_url)]})
        cases = cases_of_groups(settings)[group.name]
        rule_files = [f"../{RECORDING_FILE}", f"../{alerts_file}"]
        tests = test_file(group, cases, settings, rule_files, recording)
        files[f"tests/{group.name}.yml"] = _yaml(tests)
    return files


def _yaml(content: dict[str, Any]) -> str:
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return _HEADER + text
