"""Parameters of the Python stages, their label files, and the recipe against the manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import manifest
from common.errors import ConfigurationError
from common.parameters import PreprocessConfig, parse_postprocess, parse_preprocess
from common.postprocess.labels import load_labels
from doctor_checks.finding import Finding, problem, warning
from doctor_checks.model_configs import ConfigSet, read_configs, type_name
from doctor_checks.project import Project

CHECK_PARAMETERS = "stage parameters"
CHECK_RECIPE = "recipe fits the weights"
CHECK_MEANING = "weights"


def check_parameters(project: Project) -> list[Finding]:
    """Parameters and label files that a Python stage would refuse to load with."""
    configs = read_configs(project)
    findings: list[Finding] = []
    for suffix, parse in (("_preprocess", _preprocess), ("_postprocess", _postprocess)):
        for model in _models(configs, suffix):
            for version in _versions(project.repository / model):
                findings += _refusal(model, parse, configs.base(model), version)
    return findings


def check_recipe(project: Project) -> list[Finding]:
    """Preprocess configurations that contradict manifest.json beside the weights."""
    configs = read_configs(project)
    findings = []
    for model in _models(configs, "_preprocess"):
        inference = model.removesuffix("_preprocess") + "_inference"
        newest = _versions(project.repository / inference)[-1]
        if not (newest / manifest.MANIFEST_NAME).is_file():
            continue
        try:
            needed = manifest.recipe_of(manifest.read(newest))
            config = _preprocess(configs.base(model), newest)
        except manifest.ManifestError as error:
            findings.append(problem(CHECK_RECIPE, str(error), "export again: make export-onnx"))
            continue
        except ConfigurationError:
            continue  # reported by check_parameters
        findings += [
            problem(
                CHECK_RECIPE,
                f"{model}: {difference}",
                "write what the weights need into config.pbtxt, or export other weights",
            )
            for difference in needed.differences(configured_recipe(config))
        ]
    return findings


def check_meaning(project: Project) -> list[Finding]:
    """Weights drawn at random, whose answers say nothing."""
    findings = []
    for path in sorted(project.repository.glob("*_inference/*/" + manifest.MANIFEST_NAME)):
        try:
            document = manifest.read(path)
        except manifest.ManifestError:
            continue  # reported by check_recipe
        if not document["meaningful"]:
            findings.append(
                warning(
                    CHECK_MEANING,
                    f"{path.parent.relative_to(project.repository)} has weights "
                    f"{document['weights'].get('name')}: its answers are meaningless",
                    "export trained ones: make export-onnx WEIGHTS=IMAGENET1K_V2",
                )
            )
    return findings


def preprocess_config(config: Any) -> PreprocessConfig:
    """The preprocess stage's settings in a parsed configuration; raises ConfigurationError.

    StopIteration where the model has no output PREPROCESSED_IMAGE.
    """
    image = next(tensor for tensor in config.output if tensor.name == "PREPROCESSED_IMAGE")
    output = {"data_type": type_name(image.data_type), "dims": list(image.dims)}
    return parse_preprocess(_parameters(config), output)


def configured_recipe(config: PreprocessConfig) -> manifest.Recipe:
    """The recipe that a preprocess configuration stands for."""
    return manifest.Recipe(
        resize_size=config.resize_size,
        crop_size=config.crop_size,
        resize_mode=config.resize_mode,
        mean=config.mean or (),
        std=config.std or (),
        normalised_in_graph=config.mean is None,
    )


def _models(configs: ConfigSet, suffix: str) -> list[str]:
    return [model for model in configs.models() if model.endswith(suffix)]


def _versions(model: Path) -> list[Path]:
    numbers = sorted(int(path.name) for path in model.glob("[1-9]*") if path.name.isdigit())
    return [model / str(number) for number in numbers] or [model / "1"]


def _refusal(
    model: str, parse: Callable[[Any, Path], object], config: Any, version: Path
) -> Iterator[Finding]:
    try:
        parse(config, version)
    except ConfigurationError as error:
        yield problem(
            CHECK_PARAMETERS,
            f"{model} version {version.name} would refuse to load: {error}",
            "correct the parameter in config.pbtxt, or the file it names",
        )
    except StopIteration:
        yield problem(
            CHECK_PARAMETERS,
            f"{model} lacks the tensor that its stage works on",
            "preprocess writes PREPROCESSED_IMAGE, postprocess reads LOGITS",
        )


def _parameters(config: Any) -> dict[str, str]:
    return {key: value.string_value for key, value in config.parameters.items()}


def _preprocess(config: Any, _version: Path) -> PreprocessConfig:
    return preprocess_config(config)


def _postprocess(config: Any, version: Path) -> object:
    logits = next(tensor for tensor in config.input if tensor.name == "LOGITS")
    return load_labels(version, parse_postprocess(_parameters(config)), int(logits.dims[0]))
