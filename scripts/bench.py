"""Measure the bundle: preprocessing, end to end against other architectures, sweeps, memory."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    from benchmarks import closed_loop, end_to_end, footprint, machine, preprocess, sweep
    from benchmarks.closed_loop import LoadError
    from benchmarks.results import LATEST
    from benchmarks.summary import print_summary
    from client import report
    from common.manifest import ManifestError
    from demonstration.steps import DemoError
    from embedded import EmbeddedError
except ModuleNotFoundError as missing:
    print(f"bench: {missing}: pip install -e '.[bench]'", file=sys.stderr)
    sys.exit(2)

SCHEMA = 1
# Spread over the run: what the host's neighbours do lasts minutes.
NULL_VISITS = 3
_STARTED_S = time.perf_counter()
EXAMPLE = """example:
  python scripts/bench.py
  python scripts/bench.py --only preprocess null --output build/quick.json
  python scripts/bench.py --full
"""


@dataclass(frozen=True)
class Effort:
    """How often and how long each part measures."""

    name: str
    preprocess_scale: float
    rounds: int
    seconds: float
    clients: tuple[int, ...]
    rates: tuple[float, ...]
    whole_grid: bool


BOUNDED = Effort("bounded", 0.4, 3, 2, (1, 4, 16), (100, 200, 400), False)
FULL = Effort("full", 3.0, 6, 4, (1, 2, 4, 8, 16, 32), (25, 50, 100, 150, 200, 300, 400, 500), True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: measured; 1: a server failed under load; 2: this machine cannot run it."""
    options = _parse(arguments)
    # Ends like Ctrl-C, so that the servers under test are stopped as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        closed_loop.check()
    except LoadError as error:
        _say(str(error))
        return 2
    results = _earlier(options.output) if options.only else {}
    try:
        _measure(FULL if options.full else BOUNDED, options.only, results)
    except LoadError as error:
        _say(str(error))
        return 1
    except (DemoError, EmbeddedError, ManifestError) as error:
        _say(f"{error}; `make demo` prepares the models")
        return 2
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    finally:
        # What was measured before a failure took minutes, so it is kept.
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    _say(f"{options.output}: written after {results['took_s']} s")
    if options.json:
        print(json.dumps(results))
    else:
        print_summary(results, report.console())
    return 0


def _earlier(output: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _measure(effort: Effort, only: Sequence[str] | None, results: dict[str, Any]) -> None:
    """Fill ``results`` part by part."""
    earlier_s = results.get("took_s", 0)
    results |= {"schema": SCHEMA, "effort": effort.name, "machine": machine.describe()}
    for name, part in parts(effort):
        if only is None or name in only:
            results[name] = part()
            results["took_s"] = earlier_s + round(_elapsed_s())


def parts(effort: Effort) -> list[tuple[str, Callable[[], Any]]]:
    """The parts of a run in order, with the key of the results that each fills."""
    rounds, seconds = effort.rounds, effort.seconds
    variants = {**sweep.VARIANTS, **(sweep.grid() if effort.whole_grid else {})}
    # Many short samples rather than few long ones: their spread is what two runs can be held to.
    null = end_to_end.NullInference(2 * rounds // NULL_VISITS, seconds / 2, effort.clients, _say)
    return [
        ("null", null.visit),
        ("preprocess", lambda: preprocess.run(effort.preprocess_scale, _say)),
        ("real", lambda: end_to_end.real_inference(rounds, 0.75 * seconds, 4, _say)),
        ("rates", lambda: end_to_end.fixed_rates(effort.rates, seconds, _say)),
        ("null", null.visit),
        ("sizes", lambda: end_to_end.sizes(seconds / 2, _say)),
        ("sweep", lambda: sweep.run(max(1, rounds - 2), 0.75 * seconds, _say, variants)),
        ("gpus", lambda: sweep.simulated_gpus(rounds // 2, seconds, _say)),
        ("memory", lambda: footprint.memory(_say)),
        ("start_up", lambda: footprint.start_up(rounds, _say)),
        ("null", null.visit),
    ]


def _elapsed_s() -> float:
    return time.perf_counter() - _STARTED_S


def _say(text: str) -> None:
    print(f"bench: {_elapsed_s():4.0f} s: {text}", file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="more rounds, clients, rates, variants (about an hour)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=sorted({name for name, _ in parts(BOUNDED)}),
        metavar="PART",
        help="measure only these, and keep the other parts that the output holds",
    )
    parser.add_argument(
        "--output", type=Path, default=LATEST, help="default: %(default)s", metavar="FILE"
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
