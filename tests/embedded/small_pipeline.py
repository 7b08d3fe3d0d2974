"""A complete resnet50 pipeline around a network of five operators, and further versions of it.

Its logits depend on the mean colour alone. ``shift`` moves every class id by so many: a version
whose answers cannot be taken for another's, which disagrees with it on every picture.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from common import manifest

PROJECT = Path(__file__).resolve().parents[2]
PIPELINE = "resnet50"
ENSEMBLE = f"{PIPELINE}_ensemble"
CLASSES = 1000
RECIPE = {
    "resize_size": 232,
    "crop_size": 224,
    "resize_mode": "shortest_edge",
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "normalised_in_graph": True,
}


def make_repository(folder: Path) -> Path:
    """The project's four models in ``folder``, the small network as version 1."""
    ignored = shutil.ignore_patterns("__pycache__", "*.onnx", "*.plan", "manifest.json", ".gitkeep")
    for model in (PROJECT / "model_repository").glob(f"{PIPELINE}_*"):
        for version in model.glob("[2-9]"):
            raise AssertionError(f"the project serves {version}: these tests start from version 1")
        shutil.copytree(model, folder / model.name, ignore=ignored)
        (folder / model.name / "1").mkdir(exist_ok=True)
    write_candidate(folder / f"{PIPELINE}_inference" / "1", name="first")
    return folder


def quick_to_stop(folder: Path) -> Path:
    """A compose file whose server waits 2 s, not 10 s, for connections that clients keep open."""
    file = folder / "compose.yml"
    content = (PROJECT / "docker-compose.yml").read_text(encoding="utf-8")
    file.write_text(content.replace("--exit-timeout-secs=10", "--exit-timeout-secs=2"))
    return file


def write_candidate(
    folder: Path, shift: int = 0, *, name: str = "next", noise: float = 0.0, **changes: Any
) -> Path:
    """model.onnx and manifest.json in ``folder``; ``changes`` replace keys of the manifest.

    ``noise`` moves the weights a little, as more training would.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / manifest.MODEL_NAME
    onnx.save(network(shift, noise), model)
    checksum = manifest.sha256_of(model)
    document = {
        "pipeline": PIPELINE,
        "weights": {"name": name, "sha256": checksum},
        "meaningful": True,
        "recipe": RECIPE,
        "onnx": {"sha256": checksum, "opset": 20, "ir_version": 10, "bytes": model.stat().st_size},
        **changes,
    }
    manifest.write(document, folder / manifest.MANIFEST_NAME)
    return model


def network(shift: int = 0, noise: float = 0.0, classes: int = CLASSES) -> onnx.ModelProto:
    """Mean colour of UINT8 [N, 224, 224, 3] times a fixed matrix."""
    draw = np.random.default_rng(0)
    weights = draw.normal(0, 4, (3, classes)) + noise * draw.normal(0, 4, (3, classes))
    constants = {
        "scale": np.float32(1 / 255),
        "spatial": np.array([1, 2]),
        "weights": np.roll(weights, shift, axis=1).astype(np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["input"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels", "spatial"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "scale"], ["colour"]),
        helper.make_node("MatMul", ["colour", "weights"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mean-colour",
        [helper.make_tensor_value_info("input", TensorProto.UINT8, ["batch", 224, 224, 3])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", classes])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 20)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def jpeg(colour: tuple[int, int, int], size_px: tuple[int, int] = (96, 72)) -> bytes:
    """A one-colour picture."""
    buffer = io.BytesIO()
    Image.new("RGB", size_px, colour).save(buffer, "JPEG")
    return buffer.getvalue()


def text(data: bytes) -> str:
    """base64, as a JSON request carries it."""
    return base64.b64encode(data).decode("ascii")


def body(images: list[str], **parameters: Any) -> dict[str, Any]:
    """The JSON of one inference request."""
    tensor = {"name": "RAW_IMAGE", "datatype": "BYTES", "shape": [len(images), 1], "data": images}
    return {"inputs": [tensor], "parameters": parameters}


def results(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The result objects in the JSON of an answer."""
    return [json.loads(item) for item in answer["outputs"][0]["data"]]
