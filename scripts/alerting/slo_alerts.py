"""Multi-window burn-rate alerts: how fast the error budget of 30 days is being spent.

Windows and factors are those of Google's SRE workbook, "Alerting on SLOs": factor 14.4 spends 2 %
of the budget in an hour, 6 spends 5 % in six hours, 3 and 1 spend 10 % in one and in three days.
The short window ends an alert soon after its cause.
"""

from __future__ import annotations

from dataclasses import dataclass

from alerting.rule import PAGE, TICKET, Alert, Group
from alerting.settings import Settings


@dataclass(frozen=True)
class BurnRate:
    """Fires while both windows spend the budget ``factor`` times faster than it lasts."""

    long: str
    short: str
    factor: float
    severity: str
    hold: str
    long_seconds: int


BURN_RATES = (
    BurnRate("1h", "5m", 14.4, PAGE, "2m", 3600),
    BurnRate("6h", "30m", 6, PAGE, "2m", 6 * 3600),
    BurnRate("1d", "2h", 3, TICKET, "15m", 86_400),
    BurnRate("3d", "6h", 1, TICKET, "15m", 3 * 86_400),
)


@dataclass(frozen=True)
class Objective:
    """A ratio that has to stay below ``budget``; ``ratio`` is its recording rules' prefix."""

    alert: str
    ratio: str
    budget: float
    breach: str


def slo_group(settings: Settings) -> Group:
    """Availability and latency, four burn rates each."""
    objectives = (
        Objective(
            "PipelineAvailabilityBudgetBurn",
            "pipeline:slo_availability_errors",
            settings.availability_budget,
            "requests fail by a fault of the server",
        ),
        Objective(
            "PipelineLatencyBudgetBurn",
            "pipeline:slo_latency_slow",
            settings.latency_budget,
            f"requests take longer than {settings.latency_seconds:g} s",
        ),
    )
    alerts = (
        _alert(objective, burn, settings.min_requests)
        for objective in objectives
        for burn in BURN_RATES
    )
    return Group("slo", tuple(alerts))


def _alert(objective: Objective, burn: BurnRate, min_requests: int) -> Alert:
    limit = f"{burn.factor:g} * {objective.budget:g}"
    return Alert(
        objective.alert,
        burn.severity,
        burn.hold,
        f"""
        {objective.ratio}:ratio_rate{burn.long} > {limit}
        and {objective.ratio}:ratio_rate{burn.short} > {limit}
        and pipeline:requests:rate{burn.long} * {burn.long_seconds} > {min_requests}
        """,
        f"{{{{ $labels.pipeline }}}}: {objective.breach}",
        f"{{{{ $value | humanizePercentage }}}} of the requests of the last {burn.long}; the "
        f"budget is {objective.budget:.2%}, so it is spent more than {burn.factor:g} times too "
        "fast.",
        labels={"window": burn.long},
    )
