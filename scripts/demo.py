"""See it work: export, serve, classify photographs, ask with curl, stop. No Docker, no GPU."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    from client import ClientError, Outcome, connect, report
    from demonstration import answers, curl, photographs, pipelines
    from demonstration.answers import Answer
    from demonstration.pipelines import ServedPipeline
    from demonstration.steps import DemoError, Steps, say
    from embedded import EmbeddedError, EmbeddedServer, PreflightError
except ModuleNotFoundError as missing:
    print(f"demo: {missing}: use `make demo`, or pip install -e '.[demo]'", file=sys.stderr)
    sys.exit(2)

SERVING_STEP_COUNT = 4
EXAMPLE = """example:
  python scripts/demo.py
  python scripts/demo.py --json > answers.json
  python scripts/demo.py --prepare      # only bring the models up to date
"""


@dataclass(frozen=True)
class Shown:
    """Everything that the server answered."""

    pipelines: list[tuple[ServedPipeline, list[Answer]]]
    broken: list[tuple[str, Outcome]]
    command: str
    reply: str

    def to_json(self) -> dict[str, Any]:
        """Plain values; ``one_broken`` as the client's JSON lines."""
        return {
            "pipelines": [
                {**asdict(pipeline), "answers": [answer.to_json() for answer in found]}
                for pipeline, found in self.pipelines
            ],
            "one_broken": [
                json.loads(report.json_line(name, outcome)) for name, outcome in self.broken
            ],
            "curl": {"command": self.command, "reply": json.loads(self.reply)},
        }

    def print(self) -> None:
        """For people, on stdout."""
        console = report.console()
        languages = answers.writable_languages(console.encoding)
        if len(languages) < len(answers.LANGUAGES):
            say(f"this terminal writes {console.encoding}: Chinese labels are left out")
        for pipeline, found in self.pipelines:
            style = "bold" if pipeline.meaningful else "bold yellow"
            console.print(f"\n{pipeline.title}", style=style)
            console.print(answers.table(found, languages, pipeline.meaningful))
        first = self.pipelines[0][0]
        console.print(f"One request with a broken picture in it ({first.ensemble}):\n")
        console.print(report.table(self.broken))
        print("\nWithout any library (`make serve` keeps a server running for you):\n")
        print(self.command)
        print(f"\n{self.reply}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: everything answered; 1: a wrong answer; 2: this machine cannot run it."""
    options = parse_arguments(arguments)
    # Ends like Ctrl-C, so that the server and an export in progress are stopped as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.perf_counter()
    steps = Steps(pipelines.STEP_COUNT + (0 if options.prepare else SERVING_STEP_COUNT))
    try:
        pipelines.prepare(steps)
        shown = None if options.prepare else serve_and_ask(steps)
    except DemoError as error:
        say(str(error))
        return error.exit_code
    except EmbeddedError as error:
        say(str(error))
        return 2 if isinstance(error, PreflightError) else 1
    except ClientError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    if shown is not None:
        with report.reader_may_leave():
            print(json.dumps(shown.to_json())) if options.json else shown.print()
    say(f"done in {time.perf_counter() - started:.1f} s")
    return 0


def serve_and_ask(steps: Steps) -> Shown:
    """Start a server on free ports, ask it everything, stop it."""
    pictures = photographs.load()
    found = pipelines.served()
    with ExitStack() as running:
        with steps.step("start tritonserver") as outcome:
            server = running.enter_context(EmbeddedServer())
            # Stopping takes seconds and is bounded: a second Ctrl-C must not cut it short.
            running.callback(_ignore_signals)
            outcome.append(server.http_url)
        with steps.step(f"classify {len(pictures)} photographs with each pipeline"):
            answered = []
            for pipeline in found:
                with connect(server.http_url, model=pipeline.ensemble) as classifier:
                    answered.append((pipeline, answers.ask(classifier, pictures)))
            with connect(server.http_url, model=found[0].ensemble) as classifier:
                broken = answers.ask_with_a_broken_one(classifier, pictures)
        with steps.step("ask with curl"):
            reply = curl.run(found[0].ensemble, server.ports["http"])
        with steps.step("stop tritonserver"):
            running.close()
    return Shown(answered, broken, curl.command(found[0].ensemble), reply)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; a wrong one exits with 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--prepare", action="store_true", help="export both pipelines and stop there"
    )
    parser.add_argument("--json", action="store_true", help="print the answers as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
