"""One rule of Prometheus, and its YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

JOB = 'job="triton"'
PAGE = "page"
TICKET = "ticket"


@dataclass(frozen=True)
class Record:
    """A recording rule; ``labels`` are added to every series."""

    name: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_yaml(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"record": self.name, "expr": tidy(self.expr)}
        if self.labels:
            rule["labels"] = dict(self.labels)
        return rule


@dataclass(frozen=True)
class Alert:
    """An alerting rule. ``hold`` is its ``for``; ``keep`` how long it fires on after the cause."""

    name: str
    severity: str
    hold: str
    expr: str
    summary: str
    description: str
    keep: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_yaml(self, runbook_url: str) -> dict[str, Any]:
        rule: dict[str, Any] = {"alert": self.name, "expr": tidy(self.expr), "for": self.hold}
        if self.keep:
            rule["keep_firing_for"] = self.keep
        rule["labels"] = {"severity": self.severity, **self.labels}
        rule["annotations"] = self.annotations(runbook_url)
        return rule

    def annotations(self, runbook_url: str) -> dict[str, str]:
        """What a person reads; the anchor is the alert's heading in the runbook."""
        return {
            "summary": self.summary,
            "description": self.description,
            "runbook_url": f"{runbook_url}#{self.name.lower()}",
        }


@dataclass(frozen=True)
class Group:
    """Rules evaluated together, in order."""

    name: str
    rules: tuple[Record | Alert, ...]

    def to_yaml(self, runbook_url: str) -> dict[str, Any]:
        return {
            "name": self.name,
            "rules": [
                rule.to_yaml(runbook_url) if isinstance(rule, Alert) else rule.to_yaml()
                for rule in self.rules
            ],
        }


def tidy(expr: str) -> str:
    """The expression without the indentation of its Python source."""
    return dedent(expr).strip()
