"""What must be true after a soak: answers, processes, memory, and counters to the last request."""

from __future__ import annotations

import re
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

import requests

from soaking.clients import Tally
from soaking.watch import Watcher, growth

# What allocators may still keep after the warm-up: of the resident size, and in bytes.
RESIDENT_SHARE = 0.15
RESIDENT_BYTES = 24 << 20
# Two steps by which a region grows.
SHARED_BYTES = 16 << 20
_SETTLE_S = 0.5
_SAMPLE = re.compile(r"^(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """One thing that must be true, and the figures that say whether it is."""

    name: str
    passed: bool
    detail: str

    def to_json(self) -> dict[str, Any]:
        """As it is printed with --json."""
        return asdict(self)


class Counters:
    """One pipeline's request counters on /metrics at one moment."""

    def __init__(self, page: str, pipeline: str) -> None:
        self.values: dict[str, float] = {}
        for name, labels, value in _SAMPLE.findall(page):
            outcome = re.search(r'(?:outcome|reason)="(\w+)"', labels)
            mine = f'pipeline="{pipeline}"' in labels or f'model="{pipeline}_ensemble"' in labels
            if mine and name in (
                "pipeline_requests_total",
                "pipeline_images_total",
                "nv_inference_request_success",
                "nv_inference_request_failure",
            ):
                key = f"{name} {outcome[1]}" if outcome else name
                self.values[key] = self.values.get(key, 0) + float(value)

    @classmethod
    def settled(cls, metrics_url: str, pipeline: str) -> Counters:
        """Once they stand still: they follow the answers by a fraction of a second."""
        found = cls(_page(metrics_url), pipeline)
        while True:
            time.sleep(_SETTLE_S)
            before, found = found, cls(_page(metrics_url), pipeline)
            if before.values == found.values:
                return found

    def since(self, before: Counters, key: str) -> int:
        """How much a counter rose."""
        return round(self.values.get(key, 0) - before.values.get(key, 0))

    def failures(self, before: Counters) -> float:
        """Failed requests: Triton counts an ensemble's failure twice."""
        keys = {*self.values, *before.values}
        failed = [key for key in keys if key.startswith("nv_inference_request_failure")]
        return sum(self.since(before, key) for key in failed) / 2


def judge(
    tally: Tally, watcher: Watcher, before: Counters, after: Counters, seconds: float
) -> list[Check]:
    """Every check of a soak."""
    return [
        _answers(tally, seconds),
        _shed(tally),
        Check("every Python process lives", not watcher.lost, f"lost: {watcher.lost or 'none'}"),
        _flat("resident memory is flat", watcher.resident, RESIDENT_BYTES, RESIDENT_SHARE),
        _flat("/dev/shm is flat", watcher.shared, SHARED_BYTES, 0.0),
        *_counters(tally, before, after),
    ]


def _answers(tally: Tally, seconds: float) -> Check:
    total = sum(tally.statuses.values())
    detail = f"{total} requests, {total / seconds:.0f}/s, {sum(tally.images.values())} images"
    if tally.latencies_s:
        centiles = statistics.quantiles(tally.latencies_s, n=100)
        detail += f", p50 {centiles[49] * 1e3:.0f} ms, p99 {centiles[98] * 1e3:.0f} ms"
    if tally.fault_count:
        detail += f"; {tally.fault_count} wrong, the first: {tally.faults[0]}"
    return Check("every answer is right", tally.fault_count == 0 and total > 0, detail)


def _shed(tally: Tally) -> Check:
    shown = ", ".join(f"{count} x {status}" for status, count in sorted(tally.statuses.items()))
    is_good = set(tally.statuses) <= {200, 400, 503} and tally.statuses[503] > 0
    return Check("above capacity there are 503s and no other 5xx", is_good, shown)


def _flat(name: str, samples: list[int], allowed_bytes: int, allowed_share: float) -> Check:
    grown = growth(samples)
    largest = max(samples, default=0)
    allowed = allowed_bytes + allowed_share * largest
    detail = f"{grown / 1e6:+.1f} MB after the warm-up, never above {largest / 1e6:.0f} MB"
    return Check(name, grown <= allowed and bool(samples), detail)


def _counters(tally: Tally, before: Counters, after: Counters) -> list[Check]:
    seen = {
        "nv_inference_request_success": tally.statuses[200],
        **{
            f"pipeline_requests_total {outcome}": tally.requests[outcome]
            for outcome in ("ok", "client_error", "server_error", "refused")
        },
        **{
            f"pipeline_images_total {outcome}": tally.images[outcome]
            for outcome in ("ok", "client_error", "server_error")
        },
    }
    counted = {key: after.since(before, key) for key in seen}
    seen["failed requests"] = tally.statuses[503] + tally.statuses[400]
    counted["failed requests"] = round(after.failures(before))
    return [
        Check(f"counter: {key}", counted[key] == value, f"{counted[key]}, clients saw {value}")
        for key, value in seen.items()
    ]


def _page(url: str) -> str:
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(url, timeout=30)
        answer.raise_for_status()
        return answer.text
