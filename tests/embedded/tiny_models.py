"""Tiny ONNX models with their configurations, written into a model repository."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
CPU = "instance_group [ { kind: KIND_CPU count: 1 } ]"


def write_model(
    repository: Path, name: str, graph: str, config: str, *, file: str = "model.onnx"
) -> Path:
    """Write `graph` (ONNX text syntax, without header) and `config`; return the ONNX file."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    model = onnx.parser.parse_model(f"{HEADER}\n{graph}")
    onnx.save(model, version / file)
    write_config(repository, name, config)
    return version / file


def write_config(repository: Path, name: str, config: str) -> None:
    head = f'name: "{name}"\nbackend: "onnxruntime"\n'
    kind = "" if "instance_group" in config else CPU
    (repository / name / "config.pbtxt").write_text(f"{head}{config}\n{kind}\n")


def tensor(kind: str, name: str, dims: str, data_type: str = "TYPE_FP32") -> str:
    return f'{kind} [ {{ name: "{name}" data_type: {data_type} dims: [ {dims} ] }} ]\n'


IDENTITY = "g (float[N, 3] x) => (float[N, 3] y) { y = Identity(x) }"
IDENTITY_CONFIG = "max_batch_size: 8\n" + tensor("input", "x", "3") + tensor("output", "y", "3")
