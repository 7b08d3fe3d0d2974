"""Compare two runs of make bench: each ratio of both, and whether their spreads overlap."""

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

    from benchmarks import comparison
    from benchmarks.comparison import Pair
    from benchmarks.results import BENCH, LATEST
    from client import report
except ModuleNotFoundError as missing:
    print(f"bench-compare: {missing}: pip install -e '.[bench]'", file=sys.stderr)
    sys.exit(2)

EXAMPLE = """example:
  python scripts/bench_compare.py
  python scripts/bench_compare.py build/bench.json --with build/earlier.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: all ratios agree; 1: some do not; 2: nothing to compare."""
    options = _parse(arguments)
    try:
        pairs = comparison.pairs(_read(options.other), _read(options.run))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"bench-compare: no results of make bench: {error}", file=sys.stderr)
        return 2
    if not pairs:
        print("bench-compare: the runs have no ratio in common", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([pair.to_json() for pair in pairs]))
    else:
        _print(pairs)
    return 0 if all(pair.agrees for pair in pairs) else 1


def _print(pairs: Sequence[Pair]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ratio, median (5th to 95th percentile)")
    for name in ("other", "run", "overlap"):
        table.add_column(name, justify="right")
    for pair in pairs:
        overlap = "yes" if pair.agrees else "NO"
        table.add_row(pair.measure, str(pair.first), str(pair.second), overlap)
    console = report.console()
    console.print(table)
    agreeing = sum(pair.agrees for pair in pairs)
    console.print(f"\n{agreeing} of {len(pairs)} ratios agree within their spread")


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "run",
        nargs="?",
        type=Path,
        default=LATEST,
        metavar="FILE",
        help="results of a run (default: the latest, %(default)s)",
    )
    parser.add_argument(
        "--with",
        dest="other",
        type=Path,
        default=BENCH,
        metavar="FILE",
        help="another run (default: the published one)",
    )
    parser.add_argument("--json", action="store_true", help="print the pairs as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
