"""The project's own stages outside Triton, configured by the files that Triton reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from common import manifest
from common.manifest import Recipe
from common.parameters import parse_postprocess, parse_preprocess
from common.postprocess.postprocessor import Postprocessor
from common.preprocess.preprocessor import Preprocessor

PROJECT = Path(__file__).resolve().parents[1]
REPOSITORY = PROJECT / "model_repository"
VERSION = "1"


def read_config(path: Path) -> Any:
    """A config.pbtxt as model_config_pb2.ModelConfig."""
    return text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())


def preprocessor(pipeline: str, threads: int | None = None) -> Preprocessor:
    """The preprocessing stage as its config.pbtxt says; ``threads`` overrides only that."""
    config = read_config(REPOSITORY / f"{pipeline}_preprocess" / "config.pbtxt")
    image = next(tensor for tensor in config.output if tensor.name == "PREPROCESSED_IMAGE")
    output = {
        "data_type": model_config_pb2.DataType.Name(image.data_type),
        "dims": list(image.dims),
    }
    parsed = parse_preprocess(_parameters(config), output)
    return Preprocessor(parsed if threads is None else replace(parsed, threads=threads))


def postprocessor(pipeline: str) -> Postprocessor:
    """The postprocessing stage as its config.pbtxt says."""
    folder = REPOSITORY / f"{pipeline}_postprocess"
    config = read_config(folder / "config.pbtxt")
    logits = next(tensor for tensor in config.input if tensor.name == "LOGITS")
    return Postprocessor(parse_postprocess(_parameters(config)), folder / VERSION, logits.dims[0])


def onnx_file(pipeline: str) -> Path:
    """The exported network."""
    return REPOSITORY / f"{pipeline}_inference" / VERSION / manifest.MODEL_NAME


def served_manifest(pipeline: str) -> dict[str, Any]:
    """manifest.json beside it. Raises ManifestError where nothing was exported yet."""
    return manifest.read(onnx_file(pipeline).parent)


def recipe(pipeline: str) -> Recipe:
    """What the weights want their pixels to be."""
    return manifest.recipe_of(served_manifest(pipeline))


def _parameters(config: Any) -> dict[str, str]:
    return {key: value.string_value for key, value in config.parameters.items()}
