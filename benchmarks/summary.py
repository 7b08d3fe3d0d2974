"""What `make bench` prints: the ratios, with their spread."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Figure


def print_summary(results: dict[str, Any], console: Console) -> None:
    """Every part that was measured."""
    shown = results["machine"]
    console.print(
        f"{shown['cpu']}, {shown['cores']} cores, load {shown['load_before']} before; "
        "median (5th to 95th percentile)\n"
    )
    if "preprocess" in results:
        console.print(_preprocess(results["preprocess"]["single"]))
    for key, title in (("null", "null inference"), ("real", "real inference on this CPU")):
        if key in results:
            console.print(f"\n{title}, {results[key]['size']}, one image per request")
            console.print(_rows(results[key]["rows"]))
            console.print("\nensemble over the others (rate up, latency and CPU down is better)")
            console.print(_ratios(results[key]["ensemble_over"]))
    if "rates" in results:
        console.print("\nrequests arriving at a fixed rate")
        console.print(_rates(results["rates"]["rows"]))
    if "sweep" in results:
        console.print("\nqueue delay, instances, batching; simulated GPU")
        console.print(_sweep(results["sweep"]))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _preprocess(rows: list[dict[str, Any]]) -> Table:
    table = _table("one image", "ours, ms", "over bare decode", "torchvision over", "OpenCV over")
    for row in rows:
        table.add_row(
            f"{row['size']} {row['format']}",
            _text(row["ms"]["ours"]),
            _text(row["over_bare"]) if "over_bare" in row else "",
            *(_text(row["times_faster_than"][name]) for name in ("torchvision", "opencv")),
        )
    return table


def _rows(rows: list[dict[str, Any]]) -> Table:
    table = _table("contender", "clients", "images/s", "P50 ms", "P99 ms", "CPU ms/image")
    for row in rows:
        keys = ("images_per_s", "p50_ms", "p99_ms", "cpu_ms")
        table.add_row(row["contender"], str(row["clients"]), *(_text(row[key]) for key in keys))
    return table


def _ratios(rows: list[dict[str, Any]]) -> Table:
    table = _table("over", "clients", "images/s", "P99", "CPU per image")
    for row in rows:
        keys = ("images_per_s", "p99_ms", "cpu_ms")
        table.add_row(row["contender"], str(row["clients"]), *(_text(row[key]) for key in keys))
    return table


def _rates(rows: list[dict[str, Any]]) -> Table:
    table = _table("contender", "offered/s", "answered/s", "P50 ms", "P95 ms", "P99 ms", "failed")
    for row in rows:
        keys = ("offered_per_s", "answered_per_s", "p50_ms", "p95_ms", "p99_ms", "failed")
        table.add_row(row["contender"], *(f"{row[key]:g}" for key in keys))
    return table


def _sweep(rows: list[dict[str, Any]]) -> Table:
    table = _table("variant", "clients", "images each", "images/s", "P99 ms", "PSS MB")
    for row in rows:
        table.add_row(
            row["variant"],
            *(str(row[key]) for key in ("clients", "images_per_request")),
            *(_text(row[key]) for key in ("images_per_s", "p99_ms")),
            str(row["pss_MB"]),
        )
    return table


def _text(figure: dict[str, float]) -> str:
    return str(Figure(**figure))
