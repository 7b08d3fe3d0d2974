"""The committed results, with the look-ups and the forms that the page needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.end_to_end import (
    ENSEMBLE,
    GATEWAY,
    GATEWAY_2,
    GATEWAY_FAST,
    MONOLITH,
    MONOLITH_FAST,
)
from benchmarks.timing import Figure

_PROJECT = Path(__file__).resolve().parents[1]
DOCS = _PROJECT / "docs"
# Where `make bench` writes; BENCH is what was published of it.
LATEST = _PROJECT / "build" / "bench.json"
FOLDER = DOCS / "benchmarks"
BENCH, PARITY = FOLDER / "bench.json", FOLDER / "parity.json"
DOCUMENT, README = DOCS / "benchmarks.md", _PROJECT / "README.md"

# How contenders and sizes are called on the page.
SHOWN = {
    ENSEMBLE: "**ensemble (this bundle)**",
    GATEWAY: "FastAPI gateway → Triton",
    GATEWAY_2: "same, 2 workers",
    GATEWAY_FAST: "gateway with our preprocess",
    MONOLITH: "FastAPI + ONNX Runtime",
    MONOLITH_FAST: "same with our preprocess",
}
SIZES = {"in500": "500 × 375", "hd1080": "1920 × 1080", "mp12": "4000 × 3000"}


class Results:
    """The committed results, with the look-ups that the document needs."""

    def __init__(self, bench: Path = BENCH, parity: Path = PARITY) -> None:
        self.bench_file = bench
        self.bench: dict[str, Any] = json.loads(bench.read_text("utf-8"))
        self.parity: dict[str, Any] = json.loads(parity.read_text("utf-8"))

    def single(self, size: str, format_name: str = "jpeg") -> dict[str, Any]:
        """One image of a size and format."""
        rows = self.bench["preprocess"]["single"]
        return one(rows, size=size, format=format_name)

    def row(self, part: str, contender: str, clients: int) -> dict[str, Any]:
        """A contender's figures under closed-loop load."""
        return one(self.bench[part]["rows"], contender=contender, clients=clients)

    def over(self, part: str, contender: str, clients: int) -> dict[str, Any]:
        """The ensemble's ratios over a contender."""
        return one(self.bench[part]["ensemble_over"], contender=contender, clients=clients)

    def swept(self, variant: str, clients: int) -> dict[str, Any]:
        """A variant of the sweep, one image per request."""
        return one(self.bench["sweep"], variant=variant, clients=clients, images_per_request=1)

    def gpu(self, name: str, batching: bool = True) -> dict[str, Any]:
        """A simulated card."""
        return one(self.bench["gpus"], gpu=name, dynamic_batching=batching)

    def pipeline(self, meaningful: bool) -> dict[str, Any] | None:
        """The agreement of the pipeline with real (or drawn) weights."""
        found = [p for p in self.parity["pipelines"] if p["meaningful"] is meaningful]
        return found[0] if found else None


def one(rows: Iterable[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """The only row with these values."""
    return next(row for row in rows if all(row[key] == value for key, value in wanted.items()))


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def text(figure: dict[str, float]) -> str:
    """A figure with its spread."""
    return str(Figure(**figure))


def median(figure: dict[str, float]) -> str:
    """A figure without them."""
    return f"{figure['median']:g}"


def change(ratio: dict[str, float]) -> str:
    """A ratio as a signed percentage."""
    return _signed(ratio["median"])


def change_of(new: dict[str, float], old: dict[str, float]) -> str:
    """The change from one figure to another, as a signed percentage."""
    return _signed(new["median"] / old["median"])


def _signed(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %".replace("-", "−")
