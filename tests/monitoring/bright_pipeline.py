"""A complete pipeline whose network costs next to nothing and fails on demand.

The real preprocess, postprocess and ensemble, around a network of six operators: logits depend on
the mean colour, and a pure white image makes them -inf, which is INVALID_MODEL_OUTPUT.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import requests
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

PROJECT = Path(__file__).resolve().parents[2]
PIPELINE = "resnet50"
_CLASSES = 1000


def make_repository(folder: Path) -> Path:
    """Copy the four models into ``folder``, with the small network instead of ResNet50."""
    ignored = shutil.ignore_patterns("__pycache__", "*.onnx", "*.plan", "manifest.json")
    for model in (PROJECT / "model_repository").glob(f"{PIPELINE}_*"):
        shutil.copytree(model, folder / model.name, ignore=ignored)
    onnx.save(_network(), folder / f"{PIPELINE}_inference" / "1" / "model.onnx")
    return folder


def _network() -> onnx.ModelProto:
    weights = np.random.default_rng(0).normal(0, 4, (3, _CLASSES)).astype(np.float32)
    constants = {
        "scale": np.float32(1 / 255),
        "one": np.float32(1),
        "spatial": np.array([1, 2]),
        "channels": np.array([1]),
        "weights": weights,
    }
    nodes = [
        helper.make_node("Cast", ["input"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels", "spatial"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "scale"], ["colour"]),
        helper.make_node("MatMul", ["colour", "weights"], ["scores"]),
        helper.make_node("Sub", ["one", "colour"], ["darkness"]),
        helper.make_node("Log", ["darkness"], ["logs"]),  # of white: log(0)
        helper.make_node("ReduceSum", ["logs", "channels"], ["penalty"], keepdims=1),
        helper.make_node("Add", ["scores", "penalty"], ["output"]),
    ]
    shape_in = ["batch", 224, 224, 3]
    graph = helper.make_graph(
        nodes,
        "mean-colour",
        [helper.make_tensor_value_info("input", TensorProto.UINT8, shape_in)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", _CLASSES])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 20)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    onnx.checker.check_model(model)
    return model


def png(colour: tuple[int, int, int], size_px: tuple[int, int] = (320, 240)) -> str:
    """A one-colour PNG as base64 text."""
    buffer = io.BytesIO()
    Image.new("RGB", size_px, colour).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


GOOD = png((200, 60, 20))
WHITE = png((255, 255, 255))
NOT_BASE64 = "not/base64!"
TRUNCATED = base64.b64encode(base64.b64decode(png((9, 80, 9)))[:60]).decode("ascii")


def classify(http_url: str, images: Sequence[str], **parameters: Any) -> requests.Response:
    """One request to the ensemble."""
    tensor = {
        "name": "RAW_IMAGE",
        "datatype": "BYTES",
        "shape": [len(images), 1],
        "data": list(images),
    }
    body = {"inputs": [tensor], "parameters": parameters}
    url = f"{http_url}/v2/models/{PIPELINE}_ensemble/infer"
    return requests.post(url, json=body, timeout=60)


def codes(response: requests.Response) -> list[str]:
    """The error code of each image of an answer, empty where it has none."""
    texts = response.json()["outputs"][0]["data"]
    return [json.loads(text).get("error", "") for text in texts]
