"""Classify pictures on a running server: files, folders, patterns, stdin, web addresses."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

try:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from client import report
    from client.arguments import add_connection_options, connected, positive_number
    from client.classifier import Classifier, Outcome, failed
    from client.errors import UNREADABLE, ClientError, SourceError
    from client.sources import STDIN, Source, expand
except ModuleNotFoundError as missing:
    print(
        f"classify: {missing}: use .venv/bin/python, or pip install -e '.[client]'", file=sys.stderr
    )
    sys.exit(2)

# Enough to keep a CPU or a GPU busy, few enough for progress that moves.
DEFAULT_BATCH_SIZE = 8

EXAMPLE = """example:
  python scripts/classify.py photos/ 'holiday/**/*.jpg' --top-k 3 --lang zh
  curl -s https://example.com/cat.jpg | python scripts/classify.py - --json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: all classified; 1: some image failed; 2: usage, or no server."""
    options = parse_arguments(arguments)
    try:
        with report.reader_may_leave(), connected(options, on_retry=say) as classifier:
            return run(classifier, options)
        return 1
    except ClientError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def run(classifier: Classifier, options: argparse.Namespace) -> int:
    """Classify everything, print it, say in one line how it went."""
    if options.batch_size > classifier.max_batch_size:
        say(
            f"batches of {options.batch_size} are split: "
            f"{classifier.model} takes at most {classifier.max_batch_size} images"
        )
    started = time.perf_counter()
    done: list[tuple[str, Outcome]] = []
    try:
        for source, outcome in outcomes(classifier, options):
            done.append((report.printable(source), outcome))
            if options.json:
                print(report.json_line(*done[-1]), flush=True)
    finally:
        if done and not options.json:
            report.console().print(report.table(done))
    failures = sum(outcome.error is not None for _, outcome in done)
    took_s = time.perf_counter() - started
    say(f"{len(done) - failures} of {len(done)} classified in {took_s:.1f} s")
    return 1 if failures else 0


def outcomes(classifier: Classifier, options: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    """(source, outcome) in the order of the inputs, one batch in memory at a time."""
    with progress_bar(prints_lines=options.json) as bar:
        task = bar.add_task("", total=None)
        sources = list(expand(options.inputs, lambda *moved: _show_download(bar, task, *moved)))
        bar.update(task, total=len(sources))
        for batch in batches(sources, options.batch_size):
            yield from classify_batch(classifier, batch, options.parameters)
            bar.update(task, advance=len(batch), description="")


def classify_batch(
    classifier: Classifier, sources: Sequence[Source], parameters: dict[str, str | int | float]
) -> list[tuple[str, Outcome]]:
    """Outcomes in the order of the sources; one that cannot be read does not stop the others."""
    images: list[bytes] = []
    unreadable: dict[int, Outcome] = {}
    for position, source in enumerate(sources):
        try:
            images.append(source.read())
        except SourceError as error:
            unreadable[position] = failed(UNREADABLE, str(error))
    answers = iter(classifier.classify(images, **parameters))
    return [
        (source.name, unreadable[position] if position in unreadable else next(answers))
        for position, source in enumerate(sources)
    ]


def batches(sources: Iterable[Source], size: int) -> Iterator[list[Source]]:
    """Lists of ``size`` sources; the last may be shorter."""
    left = iter(sources)
    while batch := list(islice(left, size)):
        yield batch


def progress_bar(*, prints_lines: bool) -> Progress:
    """On stderr, gone when finished, and only where somebody looks at it.

    Lines that are printed meanwhile move on their own where they reach the same screen.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    stderr = report.console(sys.stderr)
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=stderr,
        transient=True,
        # rich would send what is printed to this console's stream, which is stderr.
        redirect_stdout=False,
        disable=not stderr.is_terminal or (prints_lines and sys.stdout.isatty()),
    )


def _show_download(bar: Progress, task: object, url: str, now: int, total: int | None) -> None:
    size = f"{now / 1e6:.1f} MB" + (f" of {total / 1e6:.1f}" if total else "")
    name = report.printable(url.rpartition("/")[2])[:24]
    bar.update(task, description=f"{name} {size}")  # type: ignore[arg-type]


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(f"classify: {report.printable(text)}", file=sys.stderr, flush=True)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with the request ``parameters`` gathered; a wrong one exits with 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="file, folder (with its subfolders), pattern, http(s) address, or - for stdin",
    )
    parser.add_argument("--top-k", type=int, help="labels per picture (default: the server's)")
    parser.add_argument("--threshold", type=float, help="least confidence shown, 0 to 1")
    parser.add_argument("--lang", help="language of the labels, such as en or zh")
    parser.add_argument(
        "--group", action="store_true", help="add classes of one kind up: every dog is a dog"
    )
    add_connection_options(parser)
    parser.add_argument(
        "--batch-size",
        type=positive_number,
        default=DEFAULT_BATCH_SIZE,
        help=f"pictures per request (default: {DEFAULT_BATCH_SIZE})",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per picture and line")
    options = parser.parse_args(arguments)
    if options.inputs.count(STDIN) > 1:
        parser.error("stdin (-) holds one picture: name it once")
    chosen = {
        "top_k": options.top_k,
        "threshold": options.threshold,
        "lang": options.lang,
        "group": options.group or None,
    }
    options.parameters = {key: value for key, value in chosen.items() if value is not None}
    return options


if __name__ == "__main__":
    sys.exit(main())
