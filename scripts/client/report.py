"""Outcomes on a screen or in a pipe: a table for people, JSON lines for machines."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from client.classifier import Outcome

# Pipes and logs have no width; this one fits most of them.
WIDTH_WITHOUT_TERMINAL = 100
NAME_WIDTH = 36


def console(stream: IO[str] | None = None) -> Console:
    """A console that never fails: signs that the stream cannot write become ``?``."""
    stream = stream or sys.stdout
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Lets whoever reads stdout stop reading, as ``| head`` does, without an error here."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody is left to write to, not even when Python flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_line(source: str, outcome: Outcome) -> str:
    """``{"source", "result", "latency_ms"}``, or ``{"source", "error", "message", "latency_ms"}``.

    ASCII only, so that it survives any pipe.
    """
    body = dict(outcome.result) if outcome.error else {"result": outcome.result}
    return json.dumps({"source": source, **body, "latency_ms": outcome.latency_ms})


def table(rows: Iterable[tuple[str, Outcome]]) -> Table:
    """Picture, rank, label, confidence; a failed image has its code and message instead."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("picture", overflow="fold")
    shown.add_column("rank", justify="right")
    shown.add_column("label", overflow="fold")
    shown.add_column("confidence", justify="right")
    for name, outcome in rows:
        source = shortened(name)
        if outcome.error:
            message = f"{outcome.error}: {outcome.result.get('message', '')}"
            shown.add_row(Text(source), "", Text(message, style="red"), "")
            continue
        if not outcome.predictions:
            shown.add_row(Text(source), "", Text("nothing above the threshold", style="dim"), "")
        for rank, prediction in enumerate(outcome.predictions, start=1):
            picture = source if rank == 1 else ""
            label, confidence = str(prediction["class"]), percent(prediction["confidence"])
            shown.add_row(Text(picture), str(rank), Text(label), confidence)
    return shown


def shortened(name: str) -> str:
    """The end of a long path or address, from a separator on where there is one."""
    if len(name) <= NAME_WIDTH:
        return name
    end = name[1 - NAME_WIDTH :]
    _, separator, rest = end.partition("/")
    return f"…{separator}{rest}" if rest else f"…{end}"


def percent(confidence: float) -> str:
    """A confidence 0..1 for people: ``92.4 %``."""
    return f"{confidence:.1%}".replace("%", " %")


def printable(name: str) -> str:
    """A file name as text: undecodable bytes and control signs are replaced."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
