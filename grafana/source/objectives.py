"""The service level objectives as panels: the verdict, the objectives, the burn rates."""

from __future__ import annotations

from pathlib import Path

from grafana.source.fields import Query, State, Thresholds, high_is_bad, low_is_bad
from grafana.source.panel_types import Stat, TimeSeries
from grafana.source.panels import Panel
from grafana.source.promql import END_TO_END, ENSEMBLE, JOB, PIPELINE, quantile
from grafana.source.shared import AVAILABILITY_BUDGET, LATENCY_BUDGET

KNOBS = Path(__file__).resolve().parents[2] / ".env.example"


def _default(knob: str) -> float:
    lines = KNOBS.read_text(encoding="utf-8").splitlines()
    return next(float(line.partition("=")[2]) for line in lines if line.startswith(f"{knob}="))


# Colour steps can hold numbers only, so they stand for the defaults; all else on the pages reads
# the objectives' own series and follows .env.
AVAILABILITY = _default("SLO_AVAILABILITY")
LATENCY_S = _default("SLO_LATENCY_SECONDS")
BURN_STEPS = ((1, "green"), (6, "yellow"), (14.4, "red"))


def verdict() -> Panel:
    down = f"4 * absent(up{{{JOB}}} == 1)"
    page = '3 * max(ALERTS{alertstate="firing",severity="page"} > 0)'
    ticket = '2 * max(ALERTS{alertstate="firing",severity="ticket"} > 0)'
    errors = f"max(pipeline:slo_availability_errors:ratio_rate5m{{{PIPELINE}}})"
    slow = f"max(pipeline:slo_latency_slow:ratio_rate5m{{{PIPELINE}}})"
    missed = f"({errors} > bool {AVAILABILITY_BUDGET}) + ({slow} > bool {LATENCY_BUDGET}) > bool 0"
    return Stat(
        title="Service",
        description=(
            "The verdict: DOWN when no Triton server answers the scrape, PAGE when an alert of "
            "severity page fires, TICKET when only tickets fire, DEGRADED when the last five "
            "minutes missed an objective but no alert fires (yet), else HEALTHY."
        ),
        unit="none",
        queries=(Query(f"{down} or {page} or {ticket} or ({missed}) or vector(0)"),),
        states=(
            State(0, "HEALTHY", "green"),
            State(1, "DEGRADED", "yellow"),
            State(2, "TICKET", "orange"),
            State(3, "PAGE", "red"),
            State(4, "DOWN", "dark-red"),
        ),
        thresholds=Thresholds("green", ((1, "yellow"), (2, "orange"), (3, "red"), (4, "dark-red"))),
        filled=True,
        width=6,
        always_has_data=True,
    )


def _budget_left() -> str:
    """PromQL: requests lost by our fault in 30 days, against what the objective allows."""

    def grown(selector: str) -> str:
        return f"(sum(increase({selector}[30d])) or vector(0))"

    failed = grown(f"pipeline:failed_requests:total{{{PIPELINE}}}")
    refused = grown(f'pipeline_requests_total{{{PIPELINE},outcome="refused"}}')
    ours = grown(f'pipeline_requests_total{{{PIPELINE},outcome="server_error"}}')
    answered = grown(f"nv_inference_request_success{{{ENSEMBLE}}}")
    lost = f"clamp_min({failed} - {refused}, 0) + {ours}"
    return f"1 - ({lost}) / ({AVAILABILITY_BUDGET} * ({answered} + {failed} > 0))"


def headline() -> tuple[Panel, ...]:
    errors = f"pipeline:slo_availability_errors:ratio_rate5m{{{PIPELINE}}}"
    return (
        Stat(
            title="Success ratio, 5 min",
            description=(
                "Share of requests that we did not fail, over five minutes. A bad image is the "
                "client's fault and does not count against us."
            ),
            unit="percentunit",
            queries=(Query(f"1 - max({errors})"),),
            thresholds=low_is_bad(AVAILABILITY, round(1 - (1 - AVAILABILITY) / 5, 6)),
            decimals=2,
            filled=True,
            no_value="No traffic",
            width=4,
            always_has_data=True,
        ),
        Stat(
            title="Error budget left, 30 days",
            description=(
                "Share of the availability budget that is left of the last 30 days, or of as much "
                "of them as Prometheus has kept. Under zero the objective is missed."
            ),
            unit="percentunit",
            queries=(Query(_budget_left()),),
            thresholds=low_is_bad(0, 0.25),
            decimals=0,
            filled=True,
            no_value="No traffic",
            width=4,
            always_has_data=True,
        ),
        Stat(
            title="Latency p95",
            description=(
                "95 of 100 requests are answered within this time, from arrival in preprocess to "
                "the answer; HTTP parsing and the queue before preprocess are not in it."
            ),
            unit="s",
            # Without traffic the quantile is NaN, which the comparison takes out.
            queries=(Query(f"{quantile(0.95, END_TO_END, PIPELINE)} >= 0"),),
            thresholds=high_is_bad(LATENCY_S / 2, LATENCY_S),
            filled=True,
            no_value="No traffic",
            width=4,
            always_has_data=True,
        ),
    )


def burn_rates() -> TimeSeries:
    def errors(window: str) -> str:
        ratio = f"pipeline:slo_availability_errors:ratio_rate{window}{{{PIPELINE}}}"
        return f"max({ratio}) / {AVAILABILITY_BUDGET}"

    def slow(window: str) -> str:
        ratio = f"pipeline:slo_latency_slow:ratio_rate{window}{{{PIPELINE}}}"
        return f"max({ratio}) / {LATENCY_BUDGET}"

    return TimeSeries(
        title="How fast the error budgets burn",
        description=(
            "1 uses the budget up in exactly 30 days. The dashed lines are where the alerts "
            "stand: 6 over six hours and 14.4 over one hour page."
        ),
        unit="x",
        queries=(
            Query(errors("1h"), "errors 1 h"),
            Query(errors("6h"), "errors 6 h"),
            Query(slow("1h"), "slow 1 h"),
            Query(slow("6h"), "slow 6 h"),
        ),
        thresholds=Thresholds("transparent", BURN_STEPS),
        colours={
            "errors 1 h": "red",
            "errors 6 h": "light-red",
            "slow 1 h": "blue",
            "slow 6 h": "light-blue",
        },
        decimals=1,
        minimum=0,
        axis_reaches=1.2,
        width=7,
        limits=True,
        always_has_data=True,
    )
