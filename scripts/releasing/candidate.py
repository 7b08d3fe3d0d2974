"""What is to be released: an ONNX file, its manifest and perhaps labels; checked, then staged."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from common import manifest
from common.manifest import Recipe
from common.parameters import parse_preprocess
from doctor_checks.artefacts import NEWEST_IR_VERSION, NEWEST_OPSET
from engine import EnvironmentProblem
from releasing import ReleaseRefused
from releasing.versions import INFERENCE, POSTPROCESS, Versions
from scaffold import ScaffoldError, configs, recipes
from scaffold.classifier import Classifier, read_classifier

# Room beside the files themselves: manifest, labels, and a file system that is not quite full.
SPARE_BYTES = 16 << 20


@dataclass(frozen=True)
class Candidate:
    """Files as the user names them; ``labels`` maps a language to a file, empty = keep the live.

    ``same_recipe`` says that weights without a manifest were trained with the live preprocessing.
    """

    onnx: Path
    manifest: Path | None = None
    same_recipe: bool = False
    labels: dict[str, Path] = field(default_factory=dict)
    groups: Path | None = None


@dataclass(frozen=True)
class Staged:
    """A checked candidate in the staging folder, under the number it is going to have."""

    number: int
    place: Path
    manifest: dict[str, Any]
    classifier: Classifier
    brings_labels: bool

    def folder(self, pipeline: str, stage: str) -> Path:
        """One staged version folder."""
        return self.place / f"{pipeline}_{stage}" / str(self.number)


def check_files(candidate: Candidate) -> onnx.ModelProto:
    """The ONNX file and its side files are there and readable by every server of this bundle."""
    path = candidate.onnx
    if not path.is_file():
        raise ReleaseRefused(f"{path} does not exist")
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except Exception:
        # protobuf's DecodeError, whose module differs between its implementations.
        raise ReleaseRefused(f"{path} is no ONNX file, or cut short: export it again") from None
    if not proto.graph.node:
        raise ReleaseRefused(f"{path} is no ONNX file, or holds an empty graph: export it again")
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=0)
    for what, found, most in (
        ("IR version", proto.ir_version, NEWEST_IR_VERSION),
        ("opset", opset, NEWEST_OPSET),
    ):
        if found > most:
            raise ReleaseRefused(
                f"{path.name} has {what} {found}, the servers of this bundle read up to {most}: "
                "export it for an older one"
            )
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location" and not (path.parent / entry.value).is_file():
                raise ReleaseRefused(
                    f"the weights of {path.name} lie in {entry.value}, which is missing: copy it "
                    "beside the ONNX file"
                )
    return proto


def stage(candidate: Candidate, versions: Versions, number: int, place: Path) -> Staged:
    """Write the version folders into ``place`` and check them against the live configuration.

    Weights in side files are taken into the one ONNX file, so a version can never be half there.
    """
    proto = check_files(candidate)
    folder = place / versions.model(INFERENCE).name / str(number)
    folder.mkdir(parents=True)
    _require_space(candidate, place)
    model = folder / manifest.MODEL_NAME
    if any(tensor.external_data for tensor in proto.graph.initializer):
        onnx.save(onnx.load(str(candidate.onnx)), str(model))
    else:
        shutil.copyfile(candidate.onnx, model)
    document = _manifest_of(candidate, versions)
    classifier = _classifier(versions, model)
    document = {
        **document,
        "onnx": {
            "sha256": manifest.sha256_of(model),
            "opset": classifier.opset,
            "ir_version": classifier.ir_version,
            "bytes": model.stat().st_size,
        },
    }
    document.pop("plan", None)
    _require_recipe(document, versions)
    manifest.write(document, folder / manifest.MANIFEST_NAME)
    # With its configurations the staging folder is a small repository, as build_engine.py takes it.
    shutil.copytree(versions.model(INFERENCE) / "configs", folder.parent / "configs")
    return Staged(number, place, document, classifier, bool(candidate.labels))


def sync(staged: Staged) -> None:
    """Everything staged is on disk, so that a rename of it is all that a crash can lose."""
    for path in (staged.place, *staged.place.rglob("*")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def live_recipe(versions: Versions) -> Recipe:
    """The recipe that the preprocess configuration serves."""
    config = configs.read_config(versions.model("preprocess") / "config.pbtxt")
    live = parse_preprocess(configs.parameters_of(config), configs.image_output_of(config))
    return Recipe(
        live.resize_size,
        live.crop_size,
        live.resize_mode,
        live.mean or (),
        live.std or (),
        live.mean is None,
    )


def _require_space(candidate: Candidate, place: Path) -> None:
    files = [candidate.onnx, *candidate.onnx.parent.glob(f"{candidate.onnx.name}*")]
    needed = sum(file.stat().st_size for file in set(files)) + SPARE_BYTES
    free = shutil.disk_usage(place).free
    if free < needed:
        raise EnvironmentProblem(
            f"the disk of {place.parent} has {free / 1e6:.0f} MB free, the release needs "
            f"{needed / 1e6:.0f} MB: remove old versions (--keep) or other files"
        )


def _manifest_of(candidate: Candidate, versions: Versions) -> dict[str, Any]:
    found = _written_manifest(candidate)
    if found is None and not candidate.same_recipe:
        raise ReleaseRefused(
            f"no manifest for these bytes beside {candidate.onnx.name}, so its preprocessing is "
            "unknown: name one with --manifest, or say --same-recipe"
        )
    if found is None:
        checksum = manifest.sha256_of(candidate.onnx)
        recipe = manifest.recipe_of(versions.manifest(versions.newest.number))
        return {
            "pipeline": versions.pipeline,
            "weights": {"name": candidate.onnx.name, "sha256": checksum},
            "meaningful": True,
            "recipe": recipe.to_json(),
        }
    if found["pipeline"] != versions.pipeline:
        raise ReleaseRefused(
            f"the manifest belongs to the pipeline {found['pipeline']}, not {versions.pipeline}: "
            "name the right ONNX file or --pipeline"
        )
    return found


def _written_manifest(candidate: Candidate) -> dict[str, Any] | None:
    if candidate.manifest is None:
        return recipes.exported_manifest(candidate.onnx)
    try:
        found = manifest.read(candidate.manifest)
    except manifest.ManifestError as error:
        raise ReleaseRefused(str(error)) from None
    if found["onnx"].get("sha256") != manifest.sha256_of(candidate.onnx):
        raise ReleaseRefused(
            f"{candidate.manifest} describes another file than {candidate.onnx.name}: the "
            "checksums differ, so export both again"
        )
    return found


def _classifier(versions: Versions, model: Path) -> Classifier:
    try:
        found = read_classifier(model, None, None)
    except ScaffoldError as error:
        text = str(error).replace(f"{model}", "the ONNX file")
        raise ReleaseRefused(text) from None
    folder = versions.model(INFERENCE)
    for file in (folder / "config.pbtxt", *sorted((folder / "configs").glob("*.pbtxt"))):
        config = configs.read_config(file)
        (image,), (logits,) = config.input, config.output
        side = found.side_px
        dims = [side, side, 3] if found.takes_pixels else [3, side, side]
        for what, wanted, offered in (
            ("input", image.name, found.input_name),
            ("input dims", list(image.dims), dims),
            ("output", logits.name, found.output_name),
            ("class count", list(logits.dims), [found.class_count]),
        ):
            if wanted != offered:
                raise ReleaseRefused(
                    f"{what} is {_bare(offered)} in the ONNX file, {_bare(wanted)} in "
                    f"{folder.name}/{file.relative_to(folder)}: that is another pipeline "
                    "(scripts/new_pipeline.py)"
                )
    return found


def _bare(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _require_recipe(document: dict[str, Any], versions: Versions) -> None:
    try:
        differences = manifest.recipe_of(document).differences(live_recipe(versions))
    except manifest.ManifestError as error:
        raise ReleaseRefused(str(error)) from None
    if differences:
        raise ReleaseRefused(
            f"another recipe: {'; '.join(differences)}. The recipe cannot change under traffic: "
            "serve these weights as a pipeline of their own (scripts/new_pipeline.py)"
        )


def labels_folder(staged: Staged, versions: Versions) -> Path:
    """Where the labels lie that this candidate is going to be served with."""
    if staged.brings_labels:
        return staged.folder(versions.pipeline, POSTPROCESS)
    return versions.folder(POSTPROCESS, versions.newest.labels)
