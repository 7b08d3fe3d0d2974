"""Compare the pipelines' answers with torchvision and PyTorch over varied real crops."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    from rich.progress import track
    from rich.table import Table

    from benchmarks import crops, machine, parity, plots, references
    from benchmarks.crops import Crop
    from benchmarks.parity import Pipeline
    from client import ClientError, connect, report
    from common.manifest import ManifestError
    from embedded import EmbeddedError, EmbeddedServer
except ModuleNotFoundError as missing:
    print(f"parity: {missing}: pip install -e '.[bench]'", file=sys.stderr)
    sys.exit(2)

# Enough to notice that the server does something else than the same code in this process.
SERVER_SAMPLE = 24
EXAMPLE = """example:
  python scripts/parity.py
  python scripts/parity.py --count 100 --pipeline efficientnet_lite0 --json > parity.json
  python scripts/parity.py --plot parity.png
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: every pipeline with real weights agrees; 1: one does not; 2: cannot run."""
    options = _parse(arguments)
    try:
        described = machine.describe()
        chosen = [Pipeline(name) for name in options.pipeline or references.PIPELINES]
        results = {
            "machine": described,
            "seed": options.seed,
            "near_tie": parity.NEAR_TIE,
            "gate_percent": 100 * parity.GATE,
            "pipelines": _compare(chosen, options.count, options.seed),
        }
        if not options.no_server:
            results["server"] = _through_server(chosen, options.seed)
    except (ManifestError, EmbeddedError, ClientError) as error:
        print(f"parity: {error}; `make demo` prepares the models", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("parity: interrupted", file=sys.stderr)
        return 130
    if options.plot:
        plots.draw_parity(results, options.plot)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        _print(results)
    return 0 if _agrees(results) else 1


def _compare(chosen: list[Pipeline], count: int, seed: int) -> list[dict[str, Any]]:
    compared: dict[str, list[parity.Compared]] = {pipeline.name: [] for pipeline in chosen}
    listed = crops.crops(count, seed)
    for crop in track(listed, "comparing", total=count, console=report.console(sys.stderr)):
        for pipeline in chosen:
            compared[pipeline.name].append(pipeline.compare(crop))
    return [parity.summary(pipeline, compared[pipeline.name]) for pipeline in chosen]


def _through_server(chosen: list[Pipeline], seed: int) -> dict[str, Any]:
    """The same crops through the real server: its class ids must be those of this process."""
    sample: list[Crop] = list(crops.crops(SERVER_SAMPLE, seed + 1))
    equal = 0
    with EmbeddedServer() as server:
        for pipeline in chosen:
            with connect(server.http_url, model=f"{pipeline.name}_ensemble") as classifier:
                outcomes = classifier.classify([crop.data for crop in sample], top_k=parity.TOP)
            for crop, outcome in zip(sample, outcomes):
                _, ids = pipeline.served(crop.data)
                equal += [p["class_id"] for p in outcome.predictions] == ids
    return {"answers": SERVER_SAMPLE * len(chosen), "equal": equal}


def _agrees(results: dict[str, Any]) -> bool:
    server = results.get("server", {"answers": 0, "equal": 0})
    same = server["answers"] == server["equal"]
    return same and all(parity.passes(each) for each in results["pipelines"])


def _print(results: dict[str, Any]) -> None:
    console = report.console()
    for each in results["pipelines"]:
        note = "" if each["meaningful"] else " (random weights: not a gate)"
        verdict = "" if parity.passes(each) else "  BELOW THE GATE"
        console.print(f"\n{each['pipeline']}, weights {each['weights']}{note}{verdict}")
        console.print(table(each))
    if "server" in results:
        server = results["server"]
        console.print(
            f"\nthrough the real server: {server['equal']} of {server['answers']} answers equal"
        )


def table(summarised: dict[str, Any]) -> Table:
    """A row per set of crops."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("crops")
    for name in (
        "number",
        "near-ties",
        "top-1 %",
        "without ties",
        "in top-5 %",
        "OpenCV without ties",
    ):
        shown.add_column(name, justify="right")
    shown.add_column("probability distance", justify="right")
    for name, figures in {**summarised["sets"], "all": summarised["all"]}.items():
        shown.add_row(
            name,
            *(str(figures[key]) for key in ("crops", "near_ties", "top1_percent")),
            str(figures["top1_percent_without_ties"]),
            str(figures["top1_in_top5_percent"]),
            str(figures.get("opencv_top1_percent_without_ties", "")),
            f"{figures['total_variation_median']} (P99 {figures['total_variation_p99']})",
        )
    return shown


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=400, help="crops (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which crops (default: %(default)s)")
    parser.add_argument(
        "--pipeline", action="append", choices=references.PIPELINES, help="default: both"
    )
    parser.add_argument("--no-server", action="store_true", help="leave the real server out")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures as PNG")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
