"""Publish: the order of things, and what happens when one fails."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from common import manifest
from engine import EnvironmentProblem
from releasing import ReleaseRefused, images, labels, plan, shadow, smoke
from releasing import candidate as candidates
from releasing.candidate import Candidate, Staged
from releasing.journal import Unfinished
from releasing.progress import Steps
from releasing.release import Releaser, times
from releasing.shadow import Comparison, Limits
from releasing.smoke import Expected
from releasing.versions import INFERENCE, POSTPROCESS, Release

_STEPS = 8


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
        self._steps = Steps(_STEPS, releaser.report)
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
            self._facts |= times(releaser)
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
