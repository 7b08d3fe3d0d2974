"""Compare preprocessing with torchvision, OpenCV and a bare JPEG decode, interleaved in one run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    from rich.table import Table

    from benchmarks import machine, preprocess
    from benchmarks.timing import Figure
    from client import report
    from common.manifest import ManifestError
    from demonstration.steps import DemoError
except ModuleNotFoundError as missing:
    print(f"bench-preprocess: {missing}: pip install -e '.[bench]'", file=sys.stderr)
    sys.exit(2)

EXAMPLE = """example:
  python scripts/bench_preprocess.py
  python scripts/bench_preprocess.py --scale 0.3 --json > preprocess.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: measured; 2: this machine cannot run it."""
    options = _parse(arguments)
    try:
        described = machine.describe()
        results = preprocess.run(options.scale, _say)
    except (DemoError, ManifestError) as error:
        _say(f"{error}; `make demo` prepares the models")
        return 2
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    if options.json:
        print(json.dumps({"machine": described, **results}, indent=1))
    else:
        _print(described, results)
    return 0


def _print(described: dict[str, Any], results: dict[str, Any]) -> None:
    console = report.console()
    console.print(
        f"{described['cpu']}, {described['cores']} cores, load {described['load_before']} before; "
        "median (5th to 95th percentile) over interleaved rounds\n"
    )
    console.print(single_table(results["single"]))
    batch, scaling = results["batch"], results["scaling"]
    faster = ", ".join(
        f"{Figure(**figure)} times faster than {name}"
        for name, figure in batch["times_faster_than"].items()
    )
    ours = Figure(**batch["ms"]["ours"])
    console.print(
        f"\n{batch['images']} images of {batch['size']} in one request, {batch['threads']} "
        f"threads: {ours} ms an image, {faster}"
    )
    rates = {name: Figure(**figure) for name, figure in scaling["images_per_s"].items()}
    console.print(
        f"images/s of {scaling['size']}: one thread {rates['one_thread']}, {scaling['cores']} "
        f"threads {rates['threads']}, {scaling['cores']} processes {rates['instances']}; threads "
        f"over one {Figure(**scaling['threads_over_one'])}, threads over processes "
        f"{Figure(**scaling['threads_over_instances'])}"
    )


def single_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row per size and format."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("one image")
    for name in ("ours, ms", "over bare decode", "faster than torchvision", "faster than OpenCV"):
        table.add_column(name, justify="right")
    for row in rows:
        over_bare = row.get("over_bare")
        table.add_row(
            f"{row['size']} {row['format']}",
            str(Figure(**row["ms"]["ours"])),
            str(Figure(**over_bare)) if over_bare else "",
            *(str(Figure(**row["times_faster_than"][name])) for name in ("torchvision", "opencv")),
        )
    return table


def _say(text: str) -> None:
    print(f"bench-preprocess: {text}", file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="more or fewer rounds (default: 1, about a minute)",
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
