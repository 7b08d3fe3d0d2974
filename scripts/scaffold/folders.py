"""The four folders of a new pipeline: built aside, checked, then put in place together."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import manifest
from common.manifest import Recipe
from common.parameters import parse_postprocess, parse_preprocess
from common.postprocess.labels import load_labels
from scaffold import ScaffoldError, configs
from scaffold.classifier import Classifier

_CONFIG = "config.pbtxt"
_VERSION = "1"
_GROUPS = "groups.json"


@dataclass(frozen=True)
class Pipeline:
    """Everything that tells one pipeline from another; ``labels`` maps language to file."""

    name: str
    onnx: Path
    classifier: Classifier
    recipe: Recipe
    labels: dict[str, Path]
    groups: Path | None

    @property
    def model_names(self) -> list[str]:
        """The four models, in the order an image meets them, the ensemble last."""
        return [f"{self.name}_{stage}" for stage in configs.STAGES]


def build(
    pipeline: Pipeline, exported: dict[str, Any] | None, templates: Path, target: Path
) -> None:
    """Write the four folders into ``target`` and check them as the models will when they load.

    Raises ScaffoldError, or ConfigurationError from the models' own checks.
    """
    _build_preprocess(pipeline, templates, target)
    _build_inference(pipeline, exported, templates, target)
    _build_postprocess(pipeline, templates, target)
    for template, config, file in _derived(pipeline, "ensemble", templates, target):
        configs.adapt_ensemble(config, pipeline.name, pipeline.classifier)
        file.write_text(configs.to_text(config, template), encoding="utf-8")
    # Triton wants a version folder even where nothing is in it.
    (target / pipeline.model_names[3] / _VERSION / ".gitkeep").touch()


def install(pipeline: Pipeline, built: Path, repository: Path, *, force: bool) -> str:
    """Move the built folders into the repository, all or none; says what was done.

    The ensemble goes last, so folders without one are what an interrupted run left behind.
    """
    present = [repository / n for n in pipeline.model_names if (repository / n).exists()]
    if present and _same(pipeline, built, repository):
        return "up to date"
    finished = (repository / pipeline.model_names[3]).exists()
    interrupted = not finished and all(_is_generated(folder) for folder in present)
    if present and not force and not interrupted:
        raise ScaffoldError(
            f"{present[0]} exists and differs: use --force to replace the pipeline, "
            "or choose another name"
        )
    _swap(pipeline.model_names, built, repository)
    return "replaced" if present else "written"


def _swap(names: list[str], built: Path, repository: Path) -> None:
    old = built / "replaced"
    old.mkdir()
    undo: list[tuple[Path, Path]] = []
    try:
        # Out in reverse order: without its ensemble a pipeline is known to be incomplete.
        for name in reversed(names):
            if (repository / name).exists():
                os.rename(repository / name, old / name)
                undo.append((old / name, repository / name))
        for name in names:
            os.rename(built / name, repository / name)
            undo.append((repository / name, built / name))
    except OSError:
        for source, target in reversed(undo):
            os.rename(source, target)
        raise


def _derived(
    pipeline: Pipeline, stage: str, templates: Path, target: Path
) -> Iterator[tuple[Path, configs.ModelConfig, Path]]:
    """Each configuration file of a stage: template path, parsed template, file to write."""
    source = templates / f"{configs.TEMPLATE}_{stage}"
    folder = target / f"{pipeline.name}_{stage}"
    (folder / _VERSION).mkdir(parents=True)
    for template in (source / _CONFIG, *sorted(source.glob("configs/*.pbtxt"))):
        file = folder / template.relative_to(source)
        file.parent.mkdir(exist_ok=True)
        yield template, configs.read_config(template), file
    adapter = source / _VERSION / "model.py"
    if adapter.exists():
        shutil.copyfile(adapter, folder / _VERSION / adapter.name)


def _build_preprocess(pipeline: Pipeline, templates: Path, target: Path) -> None:
    for template, config, file in _derived(pipeline, "preprocess", templates, target):
        configs.adapt_preprocess(config, pipeline.name, pipeline.recipe)
        parse_preprocess(configs.parameters_of(config), configs.image_output_of(config))
        file.write_text(configs.to_text(config, template), encoding="utf-8")


def _build_inference(
    pipeline: Pipeline, exported: dict[str, Any] | None, templates: Path, target: Path
) -> None:
    folder = target / f"{pipeline.name}_inference" / _VERSION
    for template, config, file in _derived(pipeline, "inference", templates, target):
        configs.adapt_inference(config, pipeline.name, pipeline.classifier)
        file.write_text(configs.to_text(config, template), encoding="utf-8")
    model = folder / manifest.MODEL_NAME
    shutil.copyfile(pipeline.onnx, model)
    checksum = manifest.sha256_of(model)
    base = exported or {
        "weights": {"name": pipeline.onnx.name, "sha256": checksum},
        "meaningful": True,
    }
    made = {
        **base,
        "pipeline": pipeline.name,
        "recipe": pipeline.recipe.to_json(),
        "onnx": {
            "sha256": checksum,
            "opset": pipeline.classifier.opset,
            "ir_version": pipeline.classifier.ir_version,
            "bytes": model.stat().st_size,
        },
    }
    made.pop("plan", None)
    manifest.write(made, folder / manifest.MANIFEST_NAME)


def _build_postprocess(pipeline: Pipeline, templates: Path, target: Path) -> None:
    folder = target / f"{pipeline.name}_postprocess" / _VERSION
    class_count = pipeline.classifier.class_count
    label_files = {language: f"labels_{language}.json" for language in pipeline.labels}
    group_file = _GROUPS if pipeline.groups else None
    for template, config, file in _derived(pipeline, "postprocess", templates, target):
        configs.adapt_postprocess(config, pipeline.name, class_count, label_files, group_file)
        file.write_text(configs.to_text(config, template), encoding="utf-8")
        parameters = configs.parameters_of(config)
    for language, source in pipeline.labels.items():
        shutil.copyfile(source, folder / label_files[language])
    if pipeline.groups:
        shutil.copyfile(pipeline.groups, folder / _GROUPS)
    load_labels(folder, parse_postprocess(parameters), class_count)


def _same(pipeline: Pipeline, built: Path, repository: Path) -> bool:
    """Whether the repository already holds every built file; an engine may lie beside them."""
    for name in pipeline.model_names:
        for file in (path for path in (built / name).rglob("*") if path.is_file()):
            other = repository / file.relative_to(built)
            if not other.is_file() or _content(file) != _content(other):
                return False
    return True


def _content(file: Path) -> object:
    if file.name != manifest.MANIFEST_NAME:
        return manifest.sha256_of(file)
    document = json.loads(file.read_text(encoding="utf-8"))
    document.pop("plan", None)
    return document


def _is_generated(folder: Path) -> bool:
    config = folder / _CONFIG
    return config.is_file() and config.read_text(encoding="utf-8").startswith(configs.HEADER)
