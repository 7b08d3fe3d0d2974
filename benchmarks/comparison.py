"""Two runs side by side: do their ratios agree within the spread that each of them shows?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.timing import Figure

_END_TO_END = ("images_per_s", "p99_ms", "cpu_ms")


@dataclass(frozen=True)
class Pair:
    """One ratio in both runs."""

    measure: str
    first: Figure
    second: Figure

    @property
    def agrees(self) -> bool:
        """Whether the two ranges, 5th to 95th percentile, have a value in common."""
        return self.first.low <= self.second.high and self.second.low <= self.first.high

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "measure": self.measure,
            "first": self.first.to_json(),
            "second": self.second.to_json(),
            "agrees": self.agrees,
        }


def pairs(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Pair]:
    """Every ratio that both runs (results of ``make bench``) hold, in the order of the first."""
    others = dict(_ratios(second))
    return [Pair(name, ours, others[name]) for name, ours in _ratios(first) if name in others]


def _ratios(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    for row in results.get("preprocess", {}).get("single", ()):
        picture = f"{row['size']} {row['format']}"
        if "over_bare" in row:
            yield f"{picture} over a bare decode", Figure(**row["over_bare"])
        for name, faster in row["times_faster_than"].items():
            yield f"{picture} against {name}", Figure(**faster)
    for part in ("null", "real"):
        for row in results.get(part, {}).get("ensemble_over", ()):
            for key in _END_TO_END:
                name = f"{part}: {row['contender']}, {row['clients']} clients, {key}"
                yield name, Figure(**row[key])
