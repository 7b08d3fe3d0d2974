"""Findings as a table for people."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from doctor_checks.finding import Finding, Status

_PIPE_COLUMNS = 160
_STYLES = {
    Status.OK: "green",
    Status.WARNING: "yellow",
    Status.PROBLEM: "bold red",
    Status.NOT_APPLICABLE: "dim",
}


def show(findings: list[Finding]) -> None:
    """Print check, status, what was seen and what to do, one row per finding."""
    table = Table(box=None, pad_edge=False)
    for heading in ("check", "status", "what was seen", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(
            finding.check,
            f"[{_STYLES[finding.status]}]{finding.status.value}[/]",
            escape(finding.detail),
            escape(finding.fix),
        )
    # Into a pipe rich would fold at 80 columns.
    Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS).print(table)
