"""Write docs/benchmarks.md, its headline and its pictures from the results of runs."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    from benchmarks import document, plots
    from benchmarks.results import DOCUMENT, FOLDER, HEADLINE, Results
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
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        for given, name in ((options.results, "bench.json"), (options.parity, "parity.json")):
            if given is not None and given.resolve() != FOLDER / name:
                shutil.copy(given, FOLDER / name)
        results = Results()
        DOCUMENT.write_text(document.document(results), encoding="utf-8")
        HEADLINE.write_text(document.headline(results) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"bench-docs: {error}", file=sys.stderr)
        return 2
    except (KeyError, StopIteration) as error:
        print(
            f"bench-docs: the results lack {error}: measure every part with `make bench`",
            file=sys.stderr,
        )
        return 2
    plots.draw_all(results.bench, results.parity, FOLDER)
    print(DOCUMENT)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="take over a bench run")
    parser.add_argument("--parity", type=Path, metavar="FILE", help="take over a parity run")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
