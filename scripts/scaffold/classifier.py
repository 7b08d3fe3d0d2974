"""What an ONNX file says about itself, and whether this bundle can serve it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from scaffold import ScaffoldError

# A last node that makes probabilities: the postprocess model would apply softmax a second time.
_PROBABILITY_OPS = ("Softmax", "Sigmoid")
_PROBE_BATCHES = (1, 2)


@dataclass(frozen=True)
class Classifier:
    """A classifier with one image input and one row of logits per image.

    ``takes_pixels``: UINT8 [N, side, side, 3], normalised inside the graph; otherwise normalised
    FP32 [N, 3, side, side].
    """

    input_name: str
    output_name: str
    takes_pixels: bool
    side_px: int
    class_count: int
    opset: int
    ir_version: int


def read_classifier(path: Path, crop_px: int | None, output_name: str | None) -> Classifier:
    """Read and try an ONNX file; ``crop_px`` is needed where its sides are dynamic.

    Raises ScaffoldError with what is wrong and how to export it otherwise.
    """
    proto = _load(path)
    image = _only_input(proto.graph)
    takes_pixels, side = _image_layout(image, crop_px)
    output = _chosen_output(proto.graph, output_name)
    _refuse_probabilities(proto.graph, output)
    class_count = _probe(path, image.name, output, takes_pixels, side)
    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 0)
    return Classifier(image.name, output, takes_pixels, side, class_count, opset, proto.ir_version)


def _load(path: Path) -> onnx.ModelProto:
    if not path.is_file():
        raise ScaffoldError(f"{path} does not exist")
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        # protobuf's DecodeError, whose module differs between its implementations
        raise ScaffoldError(f"{path} is not an ONNX file") from error
    if not proto.graph.node:
        raise ScaffoldError(f"{path} is not an ONNX file, or holds an empty graph")
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in proto.graph.initializer):
        raise ScaffoldError(
            f"{path} keeps its weights in a second file: export it with external_data=False"
        )
    return proto


def _only_input(graph: onnx.GraphProto) -> onnx.ValueInfoProto:
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs) or "none"
        raise ScaffoldError(f"the graph must have one input, the image; it has: {names}")
    return inputs[0]


def _image_layout(value: onnx.ValueInfoProto, crop_px: int | None) -> tuple[bool, int]:
    tensor = value.type.tensor_type
    # 0 stands for a dynamic axis.
    shape = [axis.dim_value for axis in tensor.shape.dim]
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
    pixels = kind == "UINT8" and len(shape) == 4 and shape[3] == 3
    floats = kind == "FLOAT" and len(shape) == 4 and shape[1] == 3
    if not pixels and not floats:
        raise ScaffoldError(
            f"input {value.name!r} is {kind} {_shape_text(tensor)}; served are UINT8 [N, H, W, 3] "
            "with the normalisation in the graph, and normalised FLOAT [N, 3, H, W]"
        )
    if shape[0]:
        raise ScaffoldError(
            f"input {value.name!r} has a fixed batch of {shape[0]}: export it with a dynamic one"
        )
    sides = set(shape[1:3] if pixels else shape[2:4])
    if len(sides) != 1:
        raise ScaffoldError(f"input {value.name!r} is not square: {_shape_text(tensor)}")
    side = sides.pop() or crop_px
    if side is None:
        raise ScaffoldError(f"input {value.name!r} has dynamic sides: say which with --crop")
    if crop_px is not None and crop_px != side:
        raise ScaffoldError(f"--crop {crop_px} does not fit input {value.name!r} of {side} px")
    return pixels, side


def _chosen_output(graph: onnx.GraphProto, wanted: str | None) -> str:
    names = [value.name for value in graph.output]
    if wanted is None and len(names) == 1:
        wanted = names[0]
    if wanted is None or wanted not in names:
        raise ScaffoldError(
            f"say with --output-name which output holds the logits: {', '.join(names)}"
        )
    return wanted


def _refuse_probabilities(graph: onnx.GraphProto, output: str) -> None:
    for node in graph.node:
        if output in node.output and node.op_type in _PROBABILITY_OPS:
            raise ScaffoldError(
                f"output {output!r} comes from {node.op_type}, but postprocessing expects logits: "
                "export the model without its last activation"
            )


def _probe(path: Path, input_name: str, output: str, takes_pixels: bool, side: int) -> int:
    """Run batches of black images; the class count. The graph's own output shape may be vague."""
    shape = (side, side, 3) if takes_pixels else (3, side, side)
    dtype = np.uint8 if takes_pixels else np.float32
    count = 0
    try:
        session = _open(path)
        for batch in _PROBE_BATCHES:
            logits = np.asarray(
                session.run([output], {input_name: np.zeros((batch, *shape), dtype)})[0]
            )
            if logits.ndim != 2 or logits.shape[0] != batch or logits.dtype != np.float32:
                raise ScaffoldError(
                    f"output {output!r} is {logits.dtype} {list(logits.shape)} for {batch} images; "
                    f"needed is float32 [{batch}, classes]"
                )
            count = logits.shape[1]
    except ScaffoldError:
        raise
    except Exception as error:
        # onnxruntime raises a dozen unrelated classes, whose texts begin with C++ source places
        # and end with the reason.
        detail = " ".join(str(error).split())[-160:]
        raise ScaffoldError(
            f"ONNX Runtime {onnxruntime.__version__} cannot run {path.name}: …{detail}"
        ) from error
    return count


def _open(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    # 3 = errors only: warnings about the graph would look like ours.
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _shape_text(tensor: onnx.TypeProto.Tensor) -> str:
    axes = [axis.dim_param or str(axis.dim_value or "?") for axis in tensor.shape.dim]
    return f"[{', '.join(axes)}]"
