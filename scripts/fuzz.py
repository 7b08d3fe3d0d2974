"""Send damaged images, texts and parameters to the real server; every answer must be listed."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from embedded import EmbeddedError, EmbeddedServer
from fuzzing.campaign import Report, run

PROJECT = Path(__file__).resolve().parents[1]

EXAMPLE = """\
example:
  python scripts/fuzz.py --count 20000 --seed 7

exit codes: 0 every answer is listed, 1 some are not (kept under --keep), 2 no server"""


def main() -> int:
    """Run one campaign; see the exit codes in --help."""
    arguments = _parse()
    console = Console(stderr=True)
    try:
        with EmbeddedServer() as server, Progress(console=console) as progress:
            task = progress.add_task("damaged elements", total=arguments.count)
            report = run(
                server,
                arguments.pipeline,
                arguments.count,
                arguments.seed,
                lambda done: progress.advance(task, done),
            )
    except EmbeddedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    _keep(report, arguments.keep)
    _print(report, arguments.json)
    return 0 if report.passed else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000, help="damaged elements to send")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same elements")
    parser.add_argument("--pipeline", default="resnet50", help="which pipeline to send them to")
    parser.add_argument(
        "--keep", type=Path, default=PROJECT / "build" / "fuzz", help="folder for what fails"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser.parse_args()


def _keep(report: Report, folder: Path) -> None:
    for reason, element in report.faults:
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(element).hexdigest()[:16]
        (folder / name).write_bytes(element)
        print(f"{folder / name}: {reason}", file=sys.stderr)


def _print(report: Report, as_json: bool) -> None:
    summary = {
        "outcomes": dict(report.outcomes.most_common()),
        "faults": len(report.faults),
        "rss_growth_mib": round(report.rss_growth_bytes / 2**20, 1),
        "server_alive": report.server_alive,
    }
    if as_json:
        print(json.dumps(summary))
        return
    table = Table("outcome", "count")
    for outcome, count in report.outcomes.most_common():
        table.add_row(outcome, str(count))
    Console().print(table)
    print(
        f"faults: {summary['faults']}, memory growth: {summary['rss_growth_mib']} MiB, "
        f"server alive: {summary['server_alive']}"
    )


if __name__ == "__main__":
    sys.exit(main())
