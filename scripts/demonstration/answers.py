"""Ask the ensembles about photographs, and lay the answers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from client import Classifier, Outcome, report
from demonstration.photographs import Photograph
from demonstration.steps import DemoError

LANGUAGES = {"en": "English", "zh": "中文"}
TOP_K = 3


@dataclass(frozen=True)
class Label:
    """One ranked class; ``names`` by language, ``confidence`` 0..1."""

    class_id: int
    names: dict[str, str]
    confidence: float


@dataclass(frozen=True)
class Answer:
    """The best classes of one photograph; ``latency_ms`` of a request for it alone."""

    picture: str
    labels: list[Label]
    latency_ms: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def ask(classifier: Classifier, photographs: Sequence[Photograph]) -> list[Answer]:
    """One answer per photograph, each asked for alone, once per language. DemoError."""
    # The first request of a connection pays for opening it.
    classifier.classify([photographs[0].data])
    return [_answer(classifier, photograph) for photograph in photographs]


def _answer(classifier: Classifier, photograph: Photograph) -> Answer:
    by_language = {}
    for language in LANGUAGES:
        (outcome,) = classifier.classify([photograph.data], top_k=TOP_K, lang=language)
        if outcome.error or len(outcome.predictions) != TOP_K or outcome.latency_ms is None:
            shown = f"{photograph.subject}: {dict(outcome.result)}"
            raise DemoError(f"{classifier.model} gave no {TOP_K} labels for the {shown}", 1)
        by_language[language] = outcome
    ranks = zip(*(outcome.predictions for outcome in by_language.values()))
    labels = [
        Label(
            rank[0]["class_id"],
            {language: p["class"] for language, p in zip(by_language, rank)},
            rank[0]["confidence"],
        )
        for rank in ranks
    ]
    return Answer(photograph.subject, labels, min(_latencies(by_language.values())))


def _latencies(outcomes: Any) -> list[float]:
    return [outcome.latency_ms for outcome in outcomes]


def ask_with_a_broken_one(
    classifier: Classifier, photographs: Sequence[Photograph]
) -> list[tuple[str, Outcome]]:
    """One request: a photograph, another one cut off half-way, and a third. DemoError."""
    first, second, third = photographs[:3]
    cut = second.data[: len(second.data) // 2]
    names = [first.subject, f"{second.subject}, cut off half-way", third.subject]
    outcomes = classifier.classify([first.data, cut, third.data], top_k=1, lang="en")
    codes = [outcome.error for outcome in outcomes]
    if codes != [None, "CORRUPT_IMAGE", None]:
        raise DemoError(f"one broken picture among three should fail alone, but got {codes}", 1)
    return list(zip(names, outcomes))


def writable_languages(encoding: str) -> list[str]:
    """The languages whose signs this encoding of a terminal has."""
    return [
        language
        for language, name in LANGUAGES.items()
        if name.encode(encoding, "ignore").decode(encoding) == name
    ]


def table(answers: Sequence[Answer], languages: Sequence[str], meaningful: bool) -> Table:
    """A row per rank; reads well from 80 columns on."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("picture")
    for language in languages:
        shown.add_column(LANGUAGES[language], overflow="fold")
    shown.add_column("confidence", justify="right")
    shown.add_column("latency", justify="right")
    for answer in answers:
        for rank, label in enumerate(answer.labels):
            first = rank == 0
            style = "bold" if first and meaningful else ""
            shown.add_row(
                answer.picture if first else "",
                *(Text(label.names[language], style) for language in languages),
                Text(report.percent(label.confidence), style),
                f"{answer.latency_ms:.0f} ms" if first else "",
                end_section=rank == len(answer.labels) - 1,
            )
    return shown
