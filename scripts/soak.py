"""Hours of mixed traffic on a real server, part of it above capacity, and what must be true after.

Starts an embedded server of its own, sends a seeded corpus (18.7 % of the images are bad) over
HTTP and gRPC, alone and in batches, and every half minute more than the server can do. Every
answer is checked; at the end so are the processes, the memory and the counters.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.progress import Progress, TextColumn
from rich.table import Table

from client.arguments import seconds
from embedded import EmbeddedError, EmbeddedServer
from soaking import corpus
from soaking.clients import MAX_IMAGES, Client, Plan, Tally, reference, run
from soaking.verdict import Check, Counters, judge
from soaking.watch import Watcher

PROJECT = Path(__file__).resolve().parents[1]
DEFAULT_SECONDS = 3600.0
STEADY_CLIENTS = 4
# Three times what the inference queue of configs/cpu.pbtxt holds; without a gRPC channel each.
FLOOD_CLIENTS = 192
FLOOD_WAYS = ("json", "json", "json", "generate")
STEADY_S, FLOOD_S = 20.0, 10.0
JOIN_S = 120.0

EXAMPLE = """\
example:
  python scripts/soak.py --seconds 180 --json

exit codes: 0 everything held, 1 something did not, 2 no server"""


class Soak:
    """Clients on one server; those of a flood come and go."""

    def __init__(self, server: EmbeddedServer, pipeline: str, seed: int) -> None:
        self.tally = Tally()
        self._server, self._ensemble, self._seed = server, f"{pipeline}_ensemble", seed
        first = self._client()
        elements = corpus.build(seed)
        self._plan = Plan(elements, reference(first, elements))
        first.close()

    def steady(self, duration_s: float, stop: threading.Event) -> None:
        """A few clients for so long, or until told to stop."""
        self._send(STEADY_CLIENTS, self._plan, duration_s, stop)

    def flood(self, duration_s: float, stop: threading.Event) -> None:
        """More than the server can do."""
        plan = replace(self._plan, ways=FLOOD_WAYS)
        self._send(FLOOD_CLIENTS, plan, duration_s, stop)

    def worst(self, duration_s: float, stop: threading.Event) -> None:
        """A flood of the largest images: what memory allocators keep of it is their most."""
        largest = self._plan.corpus.largest()
        plan = replace(
            self._plan, corpus=largest, ways=FLOOD_WAYS, images=(1,) * 19 + (MAX_IMAGES,)
        )
        self._send(FLOOD_CLIENTS, plan, duration_s, stop)

    def _send(self, clients: int, plan: Plan, duration_s: float, stop: threading.Event) -> None:
        ended = threading.Event()
        threads = [
            threading.Thread(target=self._one, args=(plan, self._seed + n, ended))
            for n in range(clients)
        ]
        self._seed += clients
        for thread in threads:
            thread.start()
        stop.wait(duration_s)
        ended.set()
        for thread in threads:
            thread.join(JOIN_S)
            if thread.is_alive():
                self.tally.fault(f"a request hangs for more than {JOIN_S:.0f} s")

    def _one(self, plan: Plan, seed: int, ended: threading.Event) -> None:
        client = self._client()
        try:
            run(client, plan, self.tally, seed, ended)
        finally:
            client.close()

    def _client(self) -> Client:
        return Client(self._server.http_url, self._server.grpc_address, self._ensemble)


def soak(server: EmbeddedServer, options: argparse.Namespace, progress: Progress) -> list[Check]:
    """The whole run; what held and what did not."""
    task = progress.add_task("soak", total=options.seconds)
    whole = Soak(server, options.pipeline, options.seed)
    before = Counters.settled(server.metrics_url, options.pipeline)
    watcher = Watcher(server.pid, server.shm_prefix)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    watching = threading.Thread(target=watcher.run, args=(stop,), daemon=True)
    watching.start()
    started = time.monotonic()
    try:
        whole.worst(min(FLOOD_S, options.seconds), stop)
        while (left := options.seconds - (time.monotonic() - started)) > 0 and not stop.is_set():
            whole.steady(min(STEADY_S, left), stop)
            whole.flood(min(FLOOD_S, max(0.0, left - STEADY_S)), stop)
            done = min(options.seconds, time.monotonic() - started)
            statuses = dict(sorted(whole.tally.statuses.items()))
            progress.update(task, completed=done, description=f"soak {statuses}")
    finally:
        stop.set()
        watching.join()
    took_s = time.monotonic() - started
    after = Counters.settled(server.metrics_url, options.pipeline)
    return judge(whole.tally, watcher, before, after, took_s)


def show(checks: list[Check]) -> None:
    """The checks for people, on stdout."""
    table = Table(show_header=False)
    for check in checks:
        table.add_row("ok" if check.passed else "FAILED", check.name, check.detail)
    Console().print(table)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; a wrong one exits with 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=DEFAULT_SECONDS,
        help=f"how long (default: {DEFAULT_SECONDS:.0f}; 90 and more tell about memory)",
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same corpus (default: 0)")
    parser.add_argument("--pipeline", default="resnet50", help="default: resnet50")
    parser.add_argument(
        "--model-repository", type=Path, default=PROJECT / "model_repository", metavar="DIR"
    )
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: everything held; 1: something did not; 2: no server."""
    options = parse_arguments(arguments)
    stderr = Console(stderr=True)
    columns = (*Progress.get_default_columns(), TextColumn("{task.completed:.0f} s"))
    try:
        with (
            EmbeddedServer(options.model_repository) as server,
            Progress(*columns, console=stderr, disable=not stderr.is_terminal) as progress,
        ):
            checks = soak(server, options, progress)
    except EmbeddedError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("soak: interrupted", file=sys.stderr)
        return 130
    if options.json:
        print(json.dumps([check.to_json() for check in checks]))
    else:
        show(checks)
    return 0 if all(check.passed for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
