"""``manifest.json``: what a version folder holds, where it came from and what it expects.

The file lies beside ``model.onnx`` and is always published last. A folder whose manifest names the
checksum of its model is therefore complete; anything else is an interrupted or altered export.
Standard library only: the preprocess model reads the recipe from here inside Triton.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1
MANIFEST_NAME = "manifest.json"
MODEL_NAME = "model.onnx"
PLAN_NAME = "model.plan"

_HASH_BLOCK_BYTES = 1 << 20
_REQUIRED_KEYS = ("pipeline", "weights", "meaningful", "recipe", "onnx")


class ManifestError(ValueError):
    """A manifest that is missing, unreadable or not of this schema; the text is one line."""


@dataclass(frozen=True)
class Recipe:
    """How pixels must be prepared for one set of weights.

    Sizes in px; mean and std per RGB channel on the 0..1 scale. With ``normalised_in_graph`` the
    model takes UINT8 [H, W, 3] and applies mean and std itself, otherwise it takes normalised
    FP32 [3, H, W].
    """

    resize_size: int
    crop_size: int
    resize_mode: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    normalised_in_graph: bool

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recipe:
        """Build a recipe from the manifest's ``recipe`` object; raises ManifestError."""
        try:
            return cls(
                resize_size=int(values["resize_size"]),
                crop_size=int(values["crop_size"]),
                resize_mode=str(values["resize_mode"]),
                mean=tuple(float(value) for value in values["mean"]),
                std=tuple(float(value) for value in values["std"]),
                normalised_in_graph=bool(values["normalised_in_graph"]),
            )
        except KeyError as error:
            raise ManifestError(f"the manifest's recipe lacks the key {error}") from error
        except (TypeError, ValueError) as error:
            raise ManifestError(f"the manifest's recipe is not readable: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """The recipe as it stands in manifest.json."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }

    def differences(self, configured: Recipe) -> list[str]:
        """One text per value in which a preprocess configuration disagrees with these weights.

        Mean and std are left out when the graph applies them: the configuration then has none.
        """
        names = ["resize_size", "crop_size", "resize_mode", "normalised_in_graph"]
        if not self.normalised_in_graph:
            names += ["mean", "std"]
        return [
            f"{name} is {_plain(getattr(configured, name))} in the configuration, "
            f"but the weights need {_plain(getattr(self, name))}"
            for name in names
            if not _equal(getattr(self, name), getattr(configured, name))
        ]


def read(path: Path) -> dict[str, Any]:
    """Read ``manifest.json`` (the file, or the version folder that holds it); ManifestError."""
    file = path / MANIFEST_NAME if path.is_dir() else path
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ManifestError(f"{file} does not exist: export the model first") from error
    except (OSError, ValueError) as error:
        raise ManifestError(f"{file} is not readable: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise ManifestError(f"{file} is not a manifest of schema {SCHEMA}")
    missing = [key for key in _REQUIRED_KEYS if key not in manifest]
    if missing:
        raise ManifestError(f"{file} lacks {', '.join(missing)}")
    return manifest


def recipe_of(manifest: Mapping[str, Any]) -> Recipe:
    """The preprocessing recipe of a manifest that :func:`read` returned; raises ManifestError."""
    return Recipe.from_json(manifest["recipe"])


def file_problems(manifest: Mapping[str, Any], folder: Path) -> list[str]:
    """One text per file of the version folder that is missing or differs from the manifest."""
    expected = {MODEL_NAME: manifest["onnx"].get("sha256")}
    if manifest.get("plan"):
        expected[PLAN_NAME] = manifest["plan"].get("sha256")
    problems = []
    for name, checksum in expected.items():
        file = folder / name
        if not file.is_file():
            problems.append(f"{name} is missing")
        elif sha256_of(file) != checksum:
            problems.append(f"{name} differs from its checksum in {MANIFEST_NAME}")
    return problems


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_HASH_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def write(manifest: Mapping[str, Any], path: Path) -> None:
    """Write a manifest as indented JSON; not atomic, so write to a staging folder."""
    path.write_text(json.dumps({"schema": SCHEMA, **manifest}, indent=2) + "\n", encoding="utf-8")


def publish(staged: list[Path], folder: Path) -> None:
    """Move finished files into ``folder`` in the order given; the manifest belongs last.

    Each file is on disk before its name changes, so after a crash at any moment every name in
    ``folder`` is either the old file or the whole new one.
    """
    for file in staged:
        _sync(file)
    for file in staged:
        _move(file, folder / file.name)
    _sync(folder)


@contextlib.contextmanager
def exclusive(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the folder for one writer; a second one waits until the first has finished or died.

    ``on_wait`` is called once before waiting.

    The lock is on the folder itself: it leaves no file behind and holds between containers that
    mount the same folder.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def staging(folder: Path, project_root: Path) -> Iterator[Path]:
    """An empty folder to build ``folder``'s files in, removed afterwards; hold :func:`exclusive`.

    It lies in ``.staging/`` of the project, outside the model repository. Where the project is
    read-only (a container that mounts only the repository) it lies inside ``folder``.
    """
    key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    place = project_root / ".staging" / key
    if not os.access(project_root, os.W_OK):
        place = folder / ".staging"
    # What a killed run left behind.
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _move(source: Path, target: Path) -> None:
    try:
        os.replace(source, target)
    except OSError as error:
        # Two mounts, even of one disk: copy beside the target first, then rename there.
        if error.errno != errno.EXDEV:
            raise
        beside = target.with_name(f".{target.name}.partial")
        shutil.copyfile(source, beside)
        _sync(beside)
        os.replace(beside, target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _equal(left: object, right: object) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(
            abs(a - b) < 1e-6 for a, b in zip(left, right, strict=True)
        )
    return left == right


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
