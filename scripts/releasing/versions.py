"""The versions of one pipeline on disk: numbers, which labels belong to which, in and out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import manifest
from engine import EnvironmentProblem

INFERENCE, POSTPROCESS = "inference", "postprocess"
# How many releases stay on disk to roll back to, the serving one included.
KEEP_VERSIONS = 3
# Made by the export job and, with its labels, part of every checkout: never removed.
FIRST_VERSION = 1


@dataclass(frozen=True, order=True)
class Release:
    """An inference version and the postprocess version whose labels it is served with."""

    number: int
    labels: int

    @property
    def brings_labels(self) -> bool:
        """Whether the labels were published with these weights."""
        return self.labels == self.number


class Versions:
    """The version folders of a pipeline in a model repository.

    A release takes its labels from the newest postprocess version that is not above its own
    number, so the folders alone say what belongs together and nothing else has to be kept true.
    """

    def __init__(self, repository: Path, pipeline: str) -> None:
        self.repository = repository.resolve()
        self.pipeline = pipeline
        absent = [s for s in (INFERENCE, POSTPROCESS) if not self.model(s).is_dir()]
        if absent:
            raise EnvironmentProblem(
                f"{self.repository} holds no {self.model(absent[0]).name}: name another "
                "--pipeline or --repository"
            )
        if not self.numbers(INFERENCE):
            raise EnvironmentProblem(
                f"{pipeline} has no version to release after: export the first one "
                "(make export-onnx)"
            )
        if max(self.numbers(POSTPROCESS)) > max(self.numbers(INFERENCE)):
            raise EnvironmentProblem(
                f"{self.model(POSTPROCESS).name} has a version above every inference version, "
                "which no release made: remove it, or give the weights that belong to it "
                "the same number"
            )

    def model(self, stage: str) -> Path:
        """The folder of one of the four models."""
        return self.repository / f"{self.pipeline}_{stage}"

    def folder(self, stage: str, number: int) -> Path:
        """One version folder."""
        return self.model(stage) / str(number)

    def numbers(self, stage: str) -> list[int]:
        """Version numbers on disk, ascending; an inference version without a model is none."""
        found = [int(f.name) for f in self.model(stage).glob("[1-9]*") if f.name.isdigit()]
        if stage == INFERENCE:
            found = [n for n in found if (self.folder(stage, n) / manifest.MODEL_NAME).is_file()]
        return sorted(found)

    def release(self, number: int) -> Release:
        """The release of an inference version."""
        labels = [n for n in self.numbers(POSTPROCESS) if n <= number]
        if not labels:
            raise EnvironmentProblem(f"version {number} of {self.pipeline} has no labels on disk")
        return Release(number, max(labels))

    @property
    def newest(self) -> Release:
        """The release that a server which starts now would serve."""
        return self.release(max(self.numbers(INFERENCE)))

    @property
    def previous(self) -> Release | None:
        """The release before the newest, None where there is only one."""
        older = self.numbers(INFERENCE)[:-1]
        return self.release(older[-1]) if older else None

    def next_number(self, used: Iterable[int]) -> int:
        """A number that was never used: Triton may overlook files that change under an old one."""
        return max([*self.numbers(INFERENCE), *self.numbers(POSTPROCESS), *used]) + 1

    def manifest(self, number: int) -> dict[str, Any]:
        """The manifest of an inference version; EnvironmentProblem where it has none."""
        try:
            return manifest.read(self.folder(INFERENCE, number))
        except manifest.ManifestError as error:
            raise EnvironmentProblem(str(error)) from None

    def admit(self, staged: Path, number: int) -> None:
        """Rename the staged version folders into place; each is whole at every moment."""
        for stage in (POSTPROCESS, INFERENCE):
            source = staged / f"{self.pipeline}_{stage}" / str(number)
            if source.is_dir():
                os.rename(source, self.folder(stage, number))
                _sync(self.model(stage))

    def withdraw(self, number: int, parking: Path) -> None:
        """Take a version's folders out of the repository, whatever part of it is there."""
        shutil.rmtree(parking, ignore_errors=True)
        parking.mkdir(parents=True)
        for stage in (INFERENCE, POSTPROCESS):
            folder = self.folder(stage, number)
            if number != FIRST_VERSION and folder.is_dir():
                os.rename(folder, parking / stage)
                _sync(self.model(stage))
        shutil.rmtree(parking)

    def prune(self, keep: int) -> list[int]:
        """Remove all but the newest ``keep`` releases and the first; the numbers removed."""
        numbers = self.numbers(INFERENCE)
        gone = [n for n in numbers[:-keep] if n != FIRST_VERSION]
        for number in gone:
            shutil.rmtree(self.folder(INFERENCE, number))
        needed = {self.release(number).labels for number in self.numbers(INFERENCE)}
        for number in self.numbers(POSTPROCESS):
            if number not in needed and number != FIRST_VERSION:
                shutil.rmtree(self.folder(POSTPROCESS, number))
        return gone


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
