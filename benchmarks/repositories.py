"""Model repositories for the measurements: the project's own stages, with another inference."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf import text_format

from benchmarks import pipelines
from benchmarks.pipelines import REPOSITORY, VERSION, read_config

PIPELINE = "resnet50"
STAGES = ("preprocess", "inference", "postprocess", "ensemble")
# What gateways with the tutorials' preprocessing ask: the same network, normalised FP32 NCHW in.
TUTORIAL_MODEL = "tutorial_inference"
_SIMULATED = Path(__file__).with_name("models") / "simulated_inference.py"
_FP32_NCHW = (11, (3, 224, 224))  # TYPE_FP32


@dataclass(frozen=True)
class Law:
    """How long a batch of n images takes: fixed + n · per image, in µs."""

    fixed_us: float
    per_image_us: float

    def batch_ms(self, images: int) -> float:
        """Milliseconds for one batch."""
        return (self.fixed_us + images * self.per_image_us) / 1e3

    def images_per_s(self, images: int) -> float:
        """Images per second when batches of this size follow each other."""
        return images / self.batch_ms(images) * 1e3


NULL = Law(0, 0)


@dataclass(frozen=True)
class Variant:
    """What differs from the configuration that the project ships.

    ``queue_delay_us`` of the inference step, None = no dynamic batching there; the last two set
    what tutorials advise: many Python instances, and dynamic batching on the Python steps.
    """

    law: Law | None = NULL
    queue_delay_us: int | None = 500
    preprocess_instances: int = 1
    postprocess_instances: int = 1
    preprocess_threads: int = 0
    python_queue_delay_us: int | None = None


def build(folder: Path, variant: Variant, copies: int = 1) -> Path:
    """A repository with the pipeline, ``copies`` times; ``law`` None keeps the real network."""
    for copy in range(copies):
        name = PIPELINE if copy == 0 else f"{PIPELINE}_copy{copy}"
        for stage in STAGES:
            _stage(folder / f"{name}_{stage}", stage, name, variant)
    if variant.law is not None:
        _simulated(folder / TUTORIAL_MODEL, variant, _FP32_NCHW)
    else:
        _bare_network(folder / TUTORIAL_MODEL)
    return folder


def bare_network(path: Path) -> Path:
    """The exported network without its normalising head: FP32 NCHW in, logits out."""
    source = pipelines.onnx_file(PIPELINE)
    convolution = next(node for node in onnx.load(source).graph.node if node.op_type == "Conv")
    onnx.utils.extract_model(str(source), str(path), [convolution.input[0]], ["output"])
    model = onnx.load(path)
    _rename(model.graph, convolution.input[0], "input")
    onnx.save(model, path)
    return path


def _rename(graph: Any, old: str, new: str) -> None:
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
    for value in graph.input:
        value.name = new if value.name == old else value.name


def _stage(folder: Path, stage: str, pipeline: str, variant: Variant) -> None:
    source = REPOSITORY / f"{PIPELINE}_{stage}"
    config = read_config(source / "config.pbtxt")
    config.name = folder.name
    if stage == "inference":
        return _inference(folder, source, variant)
    shutil.copytree(source / VERSION, folder / VERSION, ignore=_IGNORED)
    if stage == "ensemble":
        for step in config.ensemble_scheduling.step:
            step.model_name = step.model_name.replace(PIPELINE, pipeline, 1)
    else:
        is_first = stage == "preprocess"
        count = variant.preprocess_instances if is_first else variant.postprocess_instances
        config.instance_group[0].count = count
        if is_first and variant.preprocess_threads:
            config.parameters["threads"].string_value = str(variant.preprocess_threads)
        _batch(config, variant.python_queue_delay_us)
    return _write(folder, config)


def _inference(folder: Path, source: Path, variant: Variant) -> None:
    if variant.law is not None:
        image = read_config(source / "config.pbtxt").input[0]
        return _simulated(folder, variant, (image.data_type, tuple(image.dims)))
    shutil.copytree(source / VERSION, folder / VERSION, ignore=_IGNORED)
    config = read_config(source / "configs" / "cpu.pbtxt")
    config.name = folder.name
    return _write(folder, config)


def _simulated(folder: Path, variant: Variant, image: tuple[int, Iterable[int]]) -> None:
    assert variant.law is not None
    (folder / VERSION).mkdir(parents=True)
    shutil.copy(_SIMULATED, folder / VERSION / "model.py")
    config = read_config(REPOSITORY / f"{PIPELINE}_inference" / "configs" / "cpu.pbtxt")
    config.name, config.backend = folder.name, "python"
    config.default_model_filename = ""
    config.input[0].data_type = image[0]
    config.input[0].dims[:] = list(image[1])
    for key in ("fixed_us", "per_image_us"):
        config.parameters[key].string_value = str(getattr(variant.law, key))
    _batch(config, variant.queue_delay_us)
    _write(folder, config)


def _bare_network(folder: Path) -> None:
    (folder / VERSION).mkdir(parents=True)
    bare_network(folder / VERSION / "model.onnx")
    config = read_config(REPOSITORY / f"{PIPELINE}_inference" / "configs" / "cpu.pbtxt")
    config.name = folder.name
    config.input[0].data_type, config.input[0].dims[:] = _FP32_NCHW
    _write(folder, config)


def _batch(config: Any, delay_us: int | None) -> None:
    if delay_us is None:
        config.ClearField("dynamic_batching")
    else:
        config.dynamic_batching.max_queue_delay_microseconds = delay_us


def _write(folder: Path, config: Any) -> None:
    (folder / "config.pbtxt").write_text(text_format.MessageToString(config), encoding="utf-8")


_IGNORED = shutil.ignore_patterns("__pycache__")
