"""Estimate cores, instances, batch, shared memory and latency for a rate of images."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    from benchmarks import capacity
    from benchmarks.capacity import CapacityError, Plan
    from benchmarks.results import BENCH
    from client import report
except ModuleNotFoundError as missing:
    print(f"plan-capacity: {missing}: pip install -e '.[bench]'", file=sys.stderr)
    sys.exit(2)

EXAMPLE = """example:
  python scripts/plan_capacity.py --gpu l4 --cores 16 --image 1080p --rate 500

The cards' laws are assumptions (benchmarks/laws.py); the CPU's figures are those of the committed
run (docs/benchmarks.md) and change with the CPU: --results takes a run of your own.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: one host is enough; 1: scale out; 2: a question that cannot be answered."""
    options = _parse(arguments)
    try:
        plan = capacity.plan(
            options.gpu, options.cores, options.image, options.rate, options.results
        )
    except CapacityError as error:
        print(f"plan-capacity: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(plan.to_json()))
    else:
        console = report.console()
        for line in lines(plan):
            console.print(line)
    return 0 if plan.hosts == 1 else 1


def lines(plan: Plan) -> list[str]:
    """The plan for people."""
    share = int(100 * capacity.MAX_UTILISATION)
    if plan.hosts == 1:
        verdict = f"one host is enough; {plan.limit} is the first limit"
    else:
        verdict = (
            f"scale out: {plan.hosts} hosts of this kind, since {plan.limit} would pass {share} %"
        )
    return [
        f"{plan.rate_per_s:g} images/s of {plan.image} on {plan.gpu}, {plan.cores_given} cores: "
        f"{verdict}",
        "",
        f"cores needed in all        {plan.cores_needed:g} (at {share} % utilisation)",
        "on each host",
        f"  cores in use             {_percent(plan.core_utilisation)}",
        f"  GPU in use               {_percent(plan.gpu_utilisation)} with batches of {plan.batch}",
        f"  preprocess instances     {plan.preprocess_instances}, `threads` "
        f"{plan.threads_per_instance} each",
        f"  SHM_SIZE                 at least {plan.shm_MB} MB",
        f"  median latency           about {plan.latency_p50_ms:g} ms",
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", choices=capacity.gpu_names(), required=True)
    parser.add_argument("--cores", type=int, required=True, help="cores of one host")
    parser.add_argument("--image", choices=capacity.image_names(), required=True)
    parser.add_argument("--rate", type=float, required=True, help="images per second")
    parser.add_argument("--results", type=Path, default=BENCH, help="a run's JSON file")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
