"""Exported ONNX files: do they fit their manifest, ONNX Runtime and their configuration?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from common import manifest
from doctor_checks.finding import Finding, not_applicable, problem
from doctor_checks.model_configs import read_configs, type_name
from doctor_checks.project import Project

CHECK_ONNX = "exported model"
EXPORT = "export it again: make export-onnx"

# What ONNX Runtime 1.19 reads, the oldest that this bundle serves with (NGC 24.10).
NEWEST_IR_VERSION = 10
NEWEST_OPSET = 21

_TRITON_TYPES = {
    TensorProto.FLOAT: "TYPE_FP32",
    TensorProto.FLOAT16: "TYPE_FP16",
    TensorProto.UINT8: "TYPE_UINT8",
    TensorProto.INT64: "TYPE_INT64",
    TensorProto.INT32: "TYPE_INT32",
    TensorProto.INT8: "TYPE_INT8",
}


def check_onnx(project: Project) -> list[Finding]:
    """Every inference model's ONNX file against manifest, ONNX Runtime and configuration."""
    configs = read_configs(project)
    findings = []
    for model in [name for name in configs.models() if name.endswith("_inference")]:
        files = sorted((project.repository / model).glob(f"[1-9]*/{manifest.MODEL_NAME}"))
        if not files:
            findings.append(
                not_applicable(CHECK_ONNX, f"{model} is not exported yet", "make export-onnx")
            )
        for file in files:
            label = str(file.parent.relative_to(project.repository))
            faults = [*_manifest_faults(file.parent), *_graph_faults(configs.base(model), file)]
            findings += [problem(CHECK_ONNX, f"{label}: {fault}", EXPORT) for fault in faults]
    return findings


def _manifest_faults(folder: Path) -> Iterator[str]:
    try:
        document = manifest.read(folder)
    except manifest.ManifestError as error:
        yield str(error)
        return
    onnx_only = {key: value for key, value in document.items() if key != "plan"}
    yield from manifest.file_problems(onnx_only, folder)


def _graph_faults(config: Any, file: Path) -> Iterator[str]:
    try:
        graph_file = onnx.load(str(file), load_external_data=False)
    except Exception:
        # protobuf's DecodeError, which each protobuf build keeps elsewhere.
        yield f"{file.name} is no ONNX file, or cut short"
        return
    if graph_file.ir_version > NEWEST_IR_VERSION:
        yield (
            f"{file.name} has IR version {graph_file.ir_version}, ONNX Runtime of NGC 24.10 reads "
            f"up to {NEWEST_IR_VERSION}"
        )
    for used in graph_file.opset_import:
        if used.domain in ("", "ai.onnx") and used.version > NEWEST_OPSET:
            yield (
                f"{file.name} has opset {used.version}, ONNX Runtime of NGC 24.10 reads up to "
                f"{NEWEST_OPSET}"
            )
    for name in sorted(_side_files(graph_file.graph)):
        if not (file.parent / name).is_file():
            yield f"the weights of {file.name} lie in {name}, which is missing"
    graph = graph_file.graph
    for found, configured in ((graph.input, config.input), (graph.output, config.output)):
        yield from _signature_faults(file.name, found, configured, config.max_batch_size)


def _side_files(graph: Any) -> set[str]:
    return {
        entry.value
        for tensor in graph.initializer
        if tensor.data_location == TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }


def _signature_faults(
    file_name: str, found: Any, configured: Any, max_batch_size: int
) -> Iterator[str]:
    tensors = {value.name: value.type.tensor_type for value in found}
    for wanted in configured:
        tensor = tensors.get(wanted.name)
        if tensor is None:
            yield f"{file_name} has no tensor {wanted.name}, but {', '.join(sorted(tensors))}"
            continue
        kind = _TRITON_TYPES.get(tensor.elem_type, "another type")
        if kind != type_name(wanted.data_type):
            yield (
                f"{wanted.name} is {kind} in {file_name}, {type_name(wanted.data_type)} in the "
                "configuration"
            )
        sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        batch, dims = sizes[:1], sizes[1:]
        if max_batch_size and batch and batch[0] != -1:
            yield f"{wanted.name} of {file_name} has the fixed batch {batch[0]}"
        if [d for d in dims if d != -1] and not _fit(dims, list(wanted.dims)):
            yield (
                f"{wanted.name} has dims {dims} in {file_name}, {list(wanted.dims)} in the "
                "configuration"
            )


def _fit(found: list[int], configured: list[int]) -> bool:
    return len(found) == len(configured) and all(
        a == b or -1 in (a, b) for a, b in zip(found, configured)
    )
