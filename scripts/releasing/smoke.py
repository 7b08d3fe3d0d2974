"""Does the right release answer? A few pictures through the public ensemble, and what they get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from client.classifier import Outcome
from common.postprocess.labels import Labels
from releasing import ReleaseRefused
from releasing.server import Server
from releasing.versions import INFERENCE, Release, Versions

# Pictures sent; one request, which therefore meets one release.
PICTURES = 4
# Of a confidence: batches and FP16 move it by less.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Expected:
    """Good pictures, what the release's own version gave for them, and the release's names.

    ``logits`` has one row per picture and one column per class.
    """

    pictures: Sequence[bytes]
    logits: np.ndarray
    labels: Labels


def check(
    server: Server,
    versions: Versions,
    release: Release,
    expected: Expected,
) -> None:
    """ReleaseRefused unless the ensemble answers as the release's logits and labels say."""
    inference = versions.model(INFERENCE).name
    before = server.images_done(inference, release.number)
    labels = expected.labels
    language = labels.default_language
    options = {"top_k": 1, "threshold": 0.0, "group": False, "lang": language}
    results = server.classify(versions.model("ensemble").name, expected.pictures, options)
    for result, row in zip(results, expected.logits, strict=True):
        _compare(Outcome(result, None), row, labels.by_language[language])
    if server.images_done(inference, release.number) - before < len(expected.pictures):
        raise ReleaseRefused(f"smoke: the ensemble does not ask version {release.number}")


def _compare(outcome: Outcome, logits: np.ndarray, names: Sequence[str]) -> None:
    if outcome.error or not outcome.predictions:
        raise ReleaseRefused(f"smoke: a good picture is answered with {dict(outcome.result)}")
    best = outcome.predictions[0]
    shifted = np.exp(logits.astype(np.float64) - logits.max())
    probabilities = shifted / shifted.sum()
    expected, class_id = float(probabilities.max()), best["class_id"]
    # Two classes as good as equal may change places, so the answer's own probability is judged.
    own = float(probabilities[class_id])
    if abs(best["confidence"] - own) > TOLERANCE or expected - own > TOLERANCE:
        raise ReleaseRefused(
            f"smoke: class {class_id} with {best['confidence']:.3f}, but the release says "
            f"class {int(probabilities.argmax())} with {expected:.3f}"
        )
    if best["class"] != names[class_id]:
        raise ReleaseRefused(
            f"smoke: class {class_id} is called {best['class']!r}, but the release's labels say "
            f"{names[class_id]!r}"
        )
