"""Publish, roll back, clean up: the order of things, and what happens when one fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import manifest
from engine import EnvironmentProblem
from releasing import ReleaseRefused, images, labels, plan, shadow, smoke
from releasing import candidate as candidates
from releasing.candidate import Candidate, Staged
from releasing.journal import Journal, Unfinished
from releasing.progress import Report, Steps
from releasing.server import Server
from releasing.shadow import Comparison, Limits
from releasing.smoke import Expected
from releasing.traffic import Traffic
from releasing.versions import INFERENCE, POSTPROCESS, Release, Versions
from scaffold.classifier import Classifier, read_classifier

_PUBLISH_STEPS = 8
_ROLLBACK_STEPS = 4


@dataclass
class Releaser:
    """Everything a release works on; ``started_s`` is when the user asked for it (Unix time)."""

    versions: Versions
    server: Server
    report: Report
    started_s: float

    def __post_init__(self) -> None:
        self.journal = Journal(self.versions)
        self.traffic = Traffic(self.server, self.versions)

    @contextlib.contextmanager
    def alone(self) -> Iterator[Path]:
        """Hold the repository, after cleaning up what an interrupted run left; a staging folder."""

        def refuse() -> None:
            raise EnvironmentProblem(
                f"another release or new_pipeline.py is at work on {self.versions.repository}: "
                "wait until it has finished"
            )

        with manifest.exclusive(self.versions.repository, on_wait=refuse):
            unfinished = self.journal.unfinished()
            if unfinished:
                self.report(f"cleaning up an interrupted {unfinished.action}")
                self.retreat(unfinished)
            root = self.versions.repository.parent
            with manifest.staging(self.versions.repository, root) as staging:
                yield staging

    def retreat(self, unfinished: Unfinished) -> None:
        """Serve the older release and take the newer one out, however far the switch had come.

        The server may be down: then it will start with the older release.
        """
        older, newer = unfinished.older, unfinished.newer
        try:
            could_serve = newer in self.traffic.loaded(INFERENCE)
        except EnvironmentProblem as error:
            self.report(f"only the files are cleaned up: {error}")
            self.versions.withdraw(newer, self.journal.parking)
        else:
            if could_serve and newer in self.versions.numbers(INFERENCE):
                self.traffic.hold(older, self.versions.release(newer))
                self.traffic.pin(older)
            self.versions.withdraw(newer, self.journal.parking)
            self.traffic.settle()
        self.journal.end()
        self.report(f"version {older.number} serves")


class Publication:
    """One candidate on its way to be the release that serves."""

    def __init__(
        self,
        releaser: Releaser,
        candidate: Candidate,
        pictures: list[str],
        limits: Limits,
        *,
        force: str | None,
        keep: int,
    ) -> None:
        self._with = releaser
        self._candidate, self._pictures, self._limits = candidate, pictures, limits
        self._force, self._keep = force, keep
        self._steps = Steps(_PUBLISH_STEPS, releaser.report)
        self._facts: dict[str, Any] = {"action": "publish"}

    def run(self) -> dict[str, Any]:
        """The release record. Raises ReleaseRefused, EnvironmentProblem; the old version serves."""
        releaser = self._with
        with releaser.alone() as staging:
            live = releaser.versions.newest
            self._facts |= {"from": live.number, "onnx": str(self._candidate.onnx)}
            try:
                number = releaser.versions.next_number(releaser.journal.used_numbers())
                with self._steps.step(f"check the candidate for version {number}"):
                    staged = self._staged(number, staging)
                self._release(live, staged)
            except BaseException as error:
                self._failed(live, error)
                raise
            return releaser.journal.record(True, {**self._facts, "outcome": "released"})

    def _staged(self, number: int, place: Path) -> Staged:
        versions = self._with.versions
        staged = candidates.stage(self._candidate, versions, number, place)
        labels.stage(self._candidate, staged, versions)
        self._names = labels.read(
            candidates.labels_folder(staged, versions),
            labels.live_config(versions),
            staged.classifier.class_count,
        )
        self._facts["weights"] = staged.manifest["weights"]["name"]
        self._facts["onnx_sha256"] = staged.manifest["onnx"]["sha256"]
        if staged.brings_labels:
            folder = staged.folder(versions.pipeline, POSTPROCESS)
            self._facts["labels_sha256"] = {
                file.name: manifest.sha256_of(file) for file in sorted(folder.glob("*.json"))
            }
        return staged

    def _release(self, live: Release, staged: Staged) -> None:
        releaser, steps = self._with, self._steps
        versions, traffic = releaser.versions, releaser.traffic
        with steps.step("build what the server runs") as outcome:
            outcome.append(self._build(staged))
        with steps.step(f"compare with version {live.number}") as outcome:
            pictures, pixels, logits = self._compared(live, staged, outcome)
        with steps.step("put the version into the repository"):
            candidates.sync(staged)
            new = Release(staged.number, staged.number if staged.brings_labels else live.labels)
            self._facts["to"] = new.number
            releaser.journal.begin(Unfinished("publish", live, new.number))
            traffic.pin(live)
            versions.admit(staged.place, new.number)
        with steps.step(f"load version {new.number} beside version {live.number}"):
            traffic.hold(live, new)
            name = versions.model(INFERENCE).name
            served = shadow.served_logits(
                releaser.server, name, staged.classifier, pixels, new.number
            )
            shadow.require_same(logits, served, new.number)
        with steps.step(f"switch the traffic to version {new.number}"):
            traffic.pin(new)
        with steps.step("smoke through the ensemble"):
            smoke.check(releaser.server, versions, new, Expected(pictures, served, self._names))
            self._facts |= _times(releaser)
        with steps.step("finish") as outcome:
            traffic.settle()
            releaser.journal.end()
            gone = versions.prune(self._keep)
            if gone:
                outcome.append(f"removed {', '.join(map(str, gone))}")

    def _build(self, staged: Staged) -> str:
        versions = self._with.versions
        backend = self._with.server.config(versions.model(INFERENCE).name)["backend"]
        if backend != "tensorrt":
            return f"nothing: {backend} reads the ONNX file"
        plan.build(staged, versions.pipeline)
        return "a TensorRT plan"

    def _compared(
        self, live: Release, staged: Staged, outcome: list[str]
    ) -> tuple[list[bytes], np.ndarray, np.ndarray]:
        """Smoke pictures, and their pixels and logits, after the comparison with the live one."""
        versions, server = self._with.versions, self._with.server
        loaded = images.load(self._pictures)
        good, pixels = shadow.preprocessed(server, versions.model("preprocess").name, loaded)
        file = staged.folder(versions.pipeline, INFERENCE) / manifest.MODEL_NAME
        logits = shadow.file_logits(file, staged.classifier, pixels)
        name = versions.model(INFERENCE).name
        old = shadow.served_logits(server, name, staged.classifier, pixels, live.number)
        found = shadow.compare(old, logits)
        self._facts["comparison"] = found.to_json()
        outcome.append(found.summary())
        self._gate(live, staged, found, outcome)
        few = slice(smoke.PICTURES)
        return good[few], pixels[few], logits[few]

    def _gate(self, live: Release, staged: Staged, found: Comparison, outcome: list[str]) -> None:
        is_real = bool(self._with.versions.manifest(live.number)["meaningful"])
        if not is_real:
            outcome.append("not judged, for the live weights are random")
            return
        reason = found.excess(self._limits)
        if not staged.manifest["meaningful"]:
            reason = "its weights are random, the live ones are not"
        if reason and self._force is None:
            raise ReleaseRefused(f'too different: {reason}; if that is meant: --force "REASON"')
        if reason:
            self._facts["forced"] = self._force
            outcome.append(f"forced: {self._force}")

    def _failed(self, live: Release, error: BaseException) -> None:
        """Bring the old release back, and write down why."""
        releaser = self._with
        reason = str(error) or type(error).__name__
        unfinished = releaser.journal.unfinished()
        if unfinished:
            releaser.report(f'failed at "{self._steps.current}": {reason}')
            try:
                releaser.retreat(unfinished)
            except (ReleaseRefused, EnvironmentProblem) as second:
                releaser.report(f"cannot clean up now, the next run will try again: {second}")
        facts = {**self._facts, "outcome": "failed", "step": self._steps.current}
        with contextlib.suppress(OSError):
            releaser.journal.record(False, {**facts, "reason": reason})


def roll_back(releaser: Releaser, pictures: list[str], reason: str | None) -> dict[str, Any]:
    """Serve the release before the newest, take the newest out; the record.

    Raises ReleaseRefused, EnvironmentProblem; the newest then keeps serving.
    """
    versions, traffic = releaser.versions, releaser.traffic
    steps = Steps(_ROLLBACK_STEPS, releaser.report)
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
                times = _times(releaser)
        except BaseException:
            traffic.pin(newer)
            traffic.settle()
            releaser.journal.end()
            raise
        with steps.step("finish"):
            releaser.retreat(unfinished)
        facts = {"action": "rollback", "from": newer.number, "to": older.number, **times}
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


def _times(releaser: Releaser) -> dict[str, float]:
    """Seconds from the command to the first checked answer, and how many of them were loading."""
    answering_s = time.time() - releaser.started_s
    return {
        "answering_s": round(answering_s, 1),
        "loading_s": round(releaser.server.loading_s, 1),
        "own_s": round(answering_s - releaser.server.loading_s, 1),
    }
