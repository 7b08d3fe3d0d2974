"""Interleaved timing, and figures with their spread."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """Median, and 5th to 95th percentile, of repeated measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], digits: int = 3) -> Figure:
        """The figure of at least one value, rounded to ``digits`` significant digits."""
        if len(values) < 2:
            low = high = values[0]
        else:
            low, *_, high = statistics.quantiles(values, n=20, method="inclusive")
        return cls(*(_significant(v, digits) for v in (statistics.median(values), low, high)))

    def to_json(self) -> dict[str, float]:
        """As it stands in the results."""
        return asdict(self)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:g}"
        return f"{self.median:g} ({self.low:g}–{self.high:g})"


def _significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def interleaved(
    calls: Mapping[str, Callable[[], Any]], rounds: int, images_per_call: int
) -> dict[str, list[float]]:
    """Seconds per image of each call, one entry per round; the order turns by one every round.

    Garbage is collected between calls, never inside one, so that nobody pays for a neighbour.
    """
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for call in calls.values():
        call()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                gc.collect()
                started = time.perf_counter()
                calls[name]()
                seconds[name].append((time.perf_counter() - started) / images_per_call)
    finally:
        if was_enabled:
            gc.enable()
    return seconds


def ratios(over: Sequence[float], under: Sequence[float]) -> Figure:
    """``over`` / ``under``, round by round: noise that hits a whole round cancels out."""
    return Figure.of([a / b for a, b in zip(over, under)])
