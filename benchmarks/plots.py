"""Pictures of the results: axes with units, readable in print and on a dark page."""

from __future__ import annotations

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
_STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 10,
    "legend.frameon": False,
}


@contextmanager
def _figure(path: Path, columns: int = 1, height: float = 3.6) -> Iterator[list[Axes]]:
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(
            1, columns, figsize=(5.2 * columns if columns > 1 else 7.2, height), squeeze=False
        )
        yield list(axes[0])
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without the creation date the same results give the same file.
        figure.savefig(path, dpi=_DPI, metadata={"Software": None})
        plt.close(figure)


def draw_parity(results: dict[str, Any], path: Path) -> None:
    """Agreement of each set beside OpenCV's, and how far the probabilities are apart."""
    with _figure(path, columns=2) as (left, right):
        real = [each for each in results["pipelines"] if each["meaningful"]]
        for each in real or results["pipelines"]:
            names = list(each["sets"])
            places = np.arange(len(names))
            for offset, key, label in (
                (-0.2, "top1_percent_without_ties", "this bundle"),
                (0.2, "opencv_top1_percent_without_ties", "OpenCV, INTER_LINEAR"),
            ):
                values = [each["sets"][name][key] for name in names]
                bars = left.bar(places + offset, values, 0.38, label=label)
                left.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
            left.set_xticks(places, [f"{n}\n{each['sets'][n]['crops']} crops" for n in names])
            left.set_ylim(60, 104)
            left.set_ylabel("top-1 equal to torchvision\nwithout near-ties, %")
            left.set_title(each["pipeline"], fontsize=10)
            left.legend(loc="lower left", fontsize=8)
            break
        for each in results["pipelines"]:
            distances = np.sort(each["total_variation"])
            share = 100 * np.arange(1, len(distances) + 1) / len(distances)
            right.plot(np.maximum(distances, 1e-5), share, label=each["pipeline"])
        right.set_xscale("log")
        right.set_xlabel("total variation distance of the probabilities")
        right.set_ylabel("crops at most that far, %")
        right.legend(fontsize=8)
