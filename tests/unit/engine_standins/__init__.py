"""Stand-ins for NVIDIA's tools, and a small network with the bundle's tensor shapes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import build_engine
from common import manifest

HOST_GPU = "NVIDIA H100 PCIe, 9.0, 580.95.05"
SIDE_PX = 16
CLASSES = 100

CONFIG = """
name: "toy_inference"
backend: "tensorrt"
max_batch_size: 32
input [ { name: "input" data_type: TYPE_UINT8 dims: [ 16, 16, 3 ] } ]
output [ { name: "output" data_type: TYPE_FP32 dims: [ 100 ] } ]
instance_group [ { kind: KIND_GPU count: 1 } ]
parameters [ { key: "opt_batch_size" value: { string_value: "8" } } ]
"""


@dataclass
class Host:
    """A folder of executables for PATH that plays a GPU host."""

    bin: Path
    behaviour: dict[str, Any] = field(default_factory=lambda: {"generation": "10.16"})

    def set(self, **changes: Any) -> None:
        """Change how trtexec behaves; ``gpus`` are nvidia-smi's lines."""
        gpus = changes.pop("gpus", None)
        self.behaviour.update(changes)
        (self.bin / "behaviour.json").write_text(json.dumps(self.behaviour))
        if gpus is not None:
            (self.bin / "gpus.csv").write_text("\n".join(gpus) + "\n")

    def calls(self, option: str) -> list[list[str]]:
        """The trtexec command lines that carried an option."""
        log = self.bin / "calls.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        calls = [json.loads(line) for line in lines]
        return [call for call in calls if any(part.startswith(option) for part in call)]


def make_host(folder: Path) -> Host:
    """Write executable stand-ins for trtexec and nvidia-smi into ``folder``."""
    folder.mkdir()
    source = Path(__file__).with_name("trtexec_standin.py").read_text()
    executable(folder / "trtexec", f"#!{sys.executable}\n{source}")
    executable(folder / "nvidia-smi", f"#!/bin/sh\n# stand-in\nexec cat {folder}/gpus.csv\n")
    host = Host(folder)
    host.set(gpus=[HOST_GPU])
    return host


def executable(path: Path, text: str) -> None:
    """Write a script that can be run by name."""
    path.write_text(text)
    path.chmod(0o755)


def make_version(repository: Path, pipeline: str = "toy") -> Path:
    """A model with a TensorRT configuration and one exported version; the version folder."""
    model = repository / f"{pipeline}_inference"
    (model / "configs").mkdir(parents=True)
    (model / "configs" / "tensorrt.pbtxt").write_text(CONFIG)
    folder = model / "1"
    folder.mkdir()
    onnx.save(network(), str(folder / "model.onnx"))
    write_manifest(folder)
    return folder


def write_manifest(folder: Path) -> None:
    """A manifest that fits the folder's model.onnx and names no plan."""
    manifest.write(
        {
            "pipeline": "toy",
            "weights": {"name": "random:0", "sha256": "0" * 64},
            "meaningful": False,
            "recipe": {},
            "onnx": {"sha256": manifest.sha256_of(folder / "model.onnx")},
        },
        folder / "manifest.json",
    )


def run(folder: Path, *options: str) -> int:
    """build_engine's exit code for the repository that holds a version folder."""
    return build_engine.main(["--repository", str(folder.parents[1]), *options])


def plan_of(folder: Path) -> dict[str, Any]:
    """The fingerprint of the version folder's plan."""
    return manifest.read(folder)["plan"]


def network(seed: int = 0, scale: float = 1.0) -> onnx.ModelProto:
    """UINT8 [n,16,16,3] -> FP32 [n,100]: the head of the exported ResNet50 on a small body."""
    random = np.random.default_rng(seed)
    weights = {
        "offset": np.float32([123.7, 116.3, 103.5]),
        "scale": np.float32([0.017, 0.0175, 0.0174]),
        "kernel": random.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32) * np.float32(scale),
        "matrix": random.normal(0, 0.03, (2048, CLASSES)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["input"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["pixels", "offset"], ["centred"]),
        helper.make_node("Mul", ["centred", "scale"], ["normalised"]),
        helper.make_node("Transpose", ["normalised"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["planes", "kernel"], ["features"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["features"], ["active"]),
        helper.make_node("Flatten", ["active"], ["flat"]),
        helper.make_node("Gemm", ["flat", "matrix"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "toy",
        [helper.make_tensor_value_info("input", TensorProto.UINT8, ["n", SIDE_PX, SIDE_PX, 3])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["n", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 10
    return model
