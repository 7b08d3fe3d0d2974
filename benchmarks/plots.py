"""Pictures of the results: axes with units, readable in print and on a dark page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

_DPI = 120
# Okabe and Ito's colours, which colour-blind readers can tell apart.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 10,
    "legend.frameon": False,
}


# PNG text chunk that names the results a picture was drawn from, for the test of freshness.
SOURCE_KEY = "Source-SHA256"


def digest(results: dict[str, Any]) -> str:
    """Identifies results, however they are laid out in their file."""
    return hashlib.sha256(json.dumps(results, sort_keys=True).encode()).hexdigest()


def draw_all(bench: dict[str, Any], parity: dict[str, Any], folder: Path) -> None:
    """Every picture of the page."""
    draw_preprocess(bench, folder / "preprocess.png")
    draw_end_to_end(bench, folder / "end_to_end.png")
    draw_rates(bench, folder / "rates.png")
    draw_sweep(bench, folder / "sweep.png")
    draw_gpus(bench, folder / "gpus.png")
    draw_parity(parity, folder / "parity.png")


@contextmanager
def _figure(
    results: dict[str, Any], path: Path, columns: int = 1, height: float = 3.6
) -> Iterator[list[Axes]]:
    with plt.rc_context(_STYLE):
        width = 4.4 * columns if columns > 1 else 7.2
        figure, axes = plt.subplots(1, columns, figsize=(width, height), squeeze=False)
        yield list(axes[0])
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=_DPI, metadata={"Software": None, SOURCE_KEY: digest(results)})
        plt.close(figure)


def draw_preprocess(bench: dict[str, Any], path: Path) -> None:
    """Milliseconds per image: ours, the others, and a bare decode."""
    rows = [row for row in bench["preprocess"]["single"] if row["format"] == "jpeg"]
    names = {
        "bare_decode": "bare decode",
        "ours": "this bundle",
        "opencv": "OpenCV",
        "torchvision": "torchvision",
    }
    with _figure(bench, path, columns=len(rows)) as axes:
        for axis, row in zip(axes, rows):
            figures = [row["ms"][name] for name in names]
            medians = [figure["median"] for figure in figures]
            spread = [
                [figure["median"] - figure["low"] for figure in figures],
                [figure["high"] - figure["median"] for figure in figures],
            ]
            bars = axis.bar(
                range(len(names)), medians, yerr=spread, color=_COLOURS[: len(names)], capsize=3
            )
            axis.bar_label(bars, fmt="%.3g", fontsize=8, padding=3)
            axis.set_xticks(range(len(names)), list(names.values()))
            axis.tick_params("x", rotation=30, labelsize=8)
            axis.set_title("{} × {} px".format(*row["pixels"]), fontsize=10)
            axis.set_ylabel("ms per JPEG, one thread")


def draw_end_to_end(bench: dict[str, Any], path: Path) -> None:
    """Images per second, P99 and CPU by number of clients."""
    titles = {
        "images_per_s": "images per second",
        "p99_ms": "P99 latency, ms",
        "cpu_ms": "server CPU per image, ms",
    }
    rows = bench["null"]["rows"]
    with _figure(bench, path, columns=3, height=4.2) as axes:
        for axis, (key, title) in zip(axes, titles.items()):
            for colour, name in zip(_COLOURS, dict.fromkeys(row["contender"] for row in rows)):
                mine = [row for row in rows if row["contender"] == name]
                _line(
                    axis, [row["clients"] for row in mine], [row[key] for row in mine], name, colour
                )
            axis.set_xscale("log", base=2)
            counts = sorted({row["clients"] for row in rows})
            axis.set_xticks(counts, [str(count) for count in counts])
            axis.set_xlabel("clients (closed loop)")
            axis.set_ylabel(title)
            if key == "p99_ms":
                axis.set_yscale("log")
            else:
                axis.set_ylim(bottom=0)
        axes[0].legend(fontsize=7, loc="upper left")
        axes[0].set_ylim(top=axes[0].get_ylim()[1] * 1.35)


def draw_rates(bench: dict[str, Any], path: Path) -> None:
    """P99 by offered rate; a line ends where the contender could not hold the rate."""
    rows = bench["rates"]["rows"]
    with _figure(bench, path) as (axis,):
        for colour, name in zip(_COLOURS, dict.fromkeys(row["contender"] for row in rows)):
            mine = [row for row in rows if row["contender"] == name]
            axis.plot(
                [row["offered_per_s"] for row in mine],
                [row["p99_ms"] for row in mine],
                marker="o",
                color=colour,
                label=name,
            )
        axis.set_yscale("log")
        axis.set_xlabel("offered requests per second (Poisson arrivals)")
        axis.set_ylabel("P99 from the instant due, ms")
        axis.legend(fontsize=8)


def draw_sweep(bench: dict[str, Any], path: Path) -> None:
    """Every variant: throughput at 16 clients, median latency at 1."""
    rows = [row for row in bench["sweep"] if row["images_per_request"] == 1]
    variants = list(dict.fromkeys(row["variant"] for row in rows))[::-1]
    panels = ((16, "images_per_s", "images/s, 16 clients"), (1, "p50_ms", "P50 ms, 1 client"))
    height = 1 + 0.36 * len(variants)
    with _figure(bench, path, columns=2, height=height) as axes:
        for axis, (clients, key, title) in zip(axes, panels):
            values = [
                next(r for r in rows if r["variant"] == name and r["clients"] == clients)[key]
                for name in variants
            ]
            bars = axis.barh(range(len(variants)), [v["median"] for v in values], color=_COLOURS[0])
            axis.bar_label(bars, fmt="%.3g", fontsize=8, padding=2)
            axis.set_xlabel(title)
            axis.set_yticks(range(len(variants)), variants, fontsize=7)
            axis.margins(x=0.15)
        axes[1].set_yticklabels([])


def draw_gpus(bench: dict[str, Any], path: Path) -> None:
    """Cores that fill each simulated card, by size of picture."""
    gpus = [row for row in bench["gpus"] if row["dynamic_batching"]]
    costs = {row["size"]: row["cpu_ms"]["median"] for row in bench["sizes"] if row["clients"] == 4}
    with _figure(bench, path) as (axis,):
        places = np.arange(len(gpus))
        width = 0.8 / len(costs)
        for number, (size, cost) in enumerate(costs.items()):
            cores = [row["capacity_images_per_s"] * cost / 1e3 for row in gpus]
            shift = (number - (len(costs) - 1) / 2) * width
            bars = axis.bar(places + shift, cores, width, label=size, color=_COLOURS[number])
            axis.bar_label(bars, fmt="%.0f", fontsize=8, padding=2)
        axis.set_yscale("log")
        axis.set_xticks(places, [row["gpu"] for row in gpus])
        axis.set_xlabel("simulated card (assumed latency law)")
        axis.set_ylabel("cores that fill it")
        axis.legend(fontsize=8, title="JPEG", title_fontsize=8)


def _line(
    axis: Axes, places: list[int], figures: list[dict[str, float]], name: str, colour: str
) -> None:
    medians = [figure["median"] for figure in figures]
    style = "-" if name == "ensemble" else "--"
    axis.plot(places, medians, style, marker="o", markersize=4, color=colour, label=name)
    low, high = ([figure[key] for figure in figures] for key in ("low", "high"))
    axis.fill_between(places, low, high, color=colour, alpha=0.15)


def draw_parity(results: dict[str, Any], path: Path) -> None:
    """Agreement of each set beside OpenCV's, and how far the probabilities are apart."""
    with _figure(results, path, columns=2) as (left, right):
        found = results["pipelines"]
        shown = next((each for each in found if each["meaningful"]), found[0])
        names = list(shown["sets"])
        places = np.arange(len(names))
        for offset, key, label in (
            (-0.2, "top1_percent_without_ties", "this bundle"),
            (0.2, "opencv_top1_percent_without_ties", "OpenCV, INTER_LINEAR"),
        ):
            values = [shown["sets"][name][key] for name in names]
            bars = left.bar(places + offset, values, 0.38, label=label)
            left.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
        left.set_xticks(places, [f"{n}\n{shown['sets'][n]['crops']} crops" for n in names])
        left.set_ylim(60, 112)
        left.set_ylabel("top-1 equal to torchvision\nwithout near-ties, %")
        left.set_title(shown["pipeline"], fontsize=10)
        left.legend(loc="upper center", ncols=2, fontsize=8)
        for each in results["pipelines"]:
            distances = np.sort(each["total_variation"])
            share = 100 * np.arange(1, len(distances) + 1) / len(distances)
            right.plot(np.maximum(distances, 1e-5), share, label=each["pipeline"])
        right.set_xscale("log")
        right.set_xlabel("total variation distance of the probabilities")
        right.set_ylabel("crops at most that far, %")
        right.legend(fontsize=8)
