"""Write docs/benchmarks.md, the README's headline and the pictures from the results of runs."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    from benchmarks import document, plots
    from benchmarks.results import BENCH, DOCUMENT, FOLDER, PARITY, README, Results
except ModuleNotFoundError as missing:
    print(f"bench-docs: {missing}: pip install -e '.[bench]'", file=sys.stderr)
    sys.exit(2)

EXAMPLE = """example:
  python scripts/bench_docs.py
  python scripts/bench_docs.py --results build/bench.json --parity build/parity.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: written; 2: results that cannot be read or lack a part."""
    options = _parse(arguments)
    try:
        results = Results(options.results, options.parity)
        page = document.document(results)
        readme = document.with_headline(README.read_text(encoding="utf-8"), results)
    except (OSError, ValueError) as error:
        print(f"bench-docs: {error}", file=sys.stderr)
        return 2
    except (KeyError, StopIteration) as error:
        print(
            f"bench-docs: the results lack a part {error}: measure them all with `make bench`",
            file=sys.stderr,
        )
        return 2
    _take_over(options.results, BENCH)
    _take_over(options.parity, PARITY)
    DOCUMENT.write_text(page, encoding="utf-8")
    README.write_text(readme, encoding="utf-8")
    plots.draw_all(results.bench, results.parity, FOLDER)
    print(DOCUMENT)
    return 0


def _take_over(given: Path, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    if given.resolve() != kept:
        shutil.copy(given, kept)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=BENCH, metavar="FILE", help="a bench run")
    parser.add_argument("--parity", type=Path, default=PARITY, metavar="FILE", help="a parity run")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
