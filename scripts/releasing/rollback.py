"""Roll back: the release before the newest, checked before it gets a request."""

from __future__ import annotations

from typing import Any

import numpy as np

from common import manifest
from releasing import ReleaseRefused, images, labels, shadow, smoke
from releasing.journal import Unfinished
from releasing.progress import Steps
from releasing.release import Releaser, times
from releasing.smoke import Expected
from releasing.versions import INFERENCE, POSTPROCESS, Release, Versions
from scaffold.classifier import Classifier, read_classifier

_STEPS = 4


def roll_back(releaser: Releaser, pictures: list[str], reason: str | None) -> dict[str, Any]:
    """Serve the release before the newest, take the newest out; the record.

    Raises ReleaseRefused, EnvironmentProblem; the newest then keeps serving.
    """
    versions, traffic = releaser.versions, releaser.traffic
    steps = Steps(_STEPS, releaser.report)
    with releaser.alone():
        newer, older = versions.newest, versions.previous
        if older is None:
            raise ReleaseRefused(
                f"version {newer.number} is the only one on disk: there is nothing to return to"
            )
        with steps.step(f"load version {older.number} beside version {newer.number}"):
            traffic.pin(newer)
            traffic.hold(older, newer)
            good, logits = _answers(releaser, older, pictures)
        names = labels.read(
            versions.folder(POSTPROCESS, older.labels),
            labels.live_config(versions),
            logits.shape[1],
        )
        unfinished = Unfinished("rollback", older, newer.number)
        with steps.step(f"switch the traffic to version {older.number}"):
            releaser.journal.begin(unfinished)
            traffic.pin(older)
        try:
            with steps.step("smoke through the ensemble"):
                smoke.check(releaser.server, versions, older, Expected(good, logits, names))
                took = times(releaser)
        except BaseException:
            traffic.pin(newer)
            traffic.settle()
            releaser.journal.end()
            raise
        with steps.step("finish"):
            releaser.retreat(unfinished)
        facts = {"action": "rollback", "from": newer.number, "to": older.number, **took}
        return releaser.journal.record(True, {**facts, "outcome": "released", "reason": reason})


def _answers(
    releaser: Releaser, release: Release, inputs: list[str]
) -> tuple[list[bytes], np.ndarray]:
    """A few pictures, and the logits that a loaded release gives for them."""
    versions = releaser.versions
    few = images.load(inputs)[: smoke.PICTURES]
    good, pixels = shadow.preprocessed(releaser.server, versions.model("preprocess").name, few)
    classifier = _classifier_of(versions, release)
    name = versions.model(INFERENCE).name
    return good, shadow.served_logits(releaser.server, name, classifier, pixels, release.number)


def _classifier_of(versions: Versions, release: Release) -> Classifier:
    return read_classifier(
        versions.folder(INFERENCE, release.number) / manifest.MODEL_NAME, None, None
    )
