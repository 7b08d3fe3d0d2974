"""What `publish.py versions` shows: on disk, loaded, released when."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from engine import EnvironmentProblem
from releasing import ReleaseRefused
from releasing.journal import Journal
from releasing.progress import say
from releasing.server import Server
from releasing.versions import INFERENCE, Versions


def listed(versions: Versions, server: Server) -> dict[str, Any]:
    """Every version, oldest first; a server that does not answer is said, and hides nothing."""
    journal = Journal(versions)
    loaded: list[int] | None = None
    try:
        loaded = server.loaded(versions.model(INFERENCE).name)
    except (EnvironmentProblem, ReleaseRefused) as error:
        say(str(error))
    released = {
        line.get("to"): line
        for line in journal.lines()
        if line["action"] == "publish" and line["outcome"] == "released"
    }
    rows = []
    for number in versions.numbers(INFERENCE):
        document = versions.manifest(number)
        line = released.get(number, {})
        rows.append(
            {
                "version": number,
                "labels": versions.release(number).labels,
                "loaded": None if loaded is None else number in loaded,
                "weights": document["weights"]["name"],
                "onnx_sha256": document["onnx"]["sha256"],
                "released": line.get("when"),
                "comparison": line.get("comparison"),
            }
        )
    unfinished = journal.unfinished()
    return {
        "pipeline": versions.pipeline,
        "versions": rows,
        "unfinished": unfinished.action if unfinished else None,
    }


def print_versions(result: dict[str, Any]) -> None:
    """The same for people, on stdout."""
    table = Table(title=result["pipeline"])
    for column in ("version", "labels", "loaded", "weights", "ONNX sha256", "released", "agreed"):
        table.add_column(column)
    for row in result["versions"]:
        loaded = {None: "?", True: "yes", False: ""}[row["loaded"]]
        comparison = row["comparison"] or {}
        agreed = f"{comparison['agreement']:.0%}" if comparison else ""
        table.add_row(
            str(row["version"]),
            str(row["labels"]),
            loaded,
            row["weights"],
            row["onnx_sha256"][:12],
            row["released"] or "",
            agreed,
        )
    Console().print(table)
    if result["unfinished"]:
        say(f"an interrupted {result['unfinished']} is cleaned up by the next publish or rollback")
