"""The FP16-typed twin of an FP32 ONNX file: same weights, same inputs, FP32 outputs.

Precision is put into the graph because TensorRT 11 takes it from nowhere else. What lies between
the input and the first convolution (the cast from UINT8 and the normalisation) stays FP32, so a
pixel's value is exact until the network proper begins.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engine import EngineError

_FP16_MAX = float(np.finfo(np.float16).max)
# The network proper begins here; Shape and Size only read dims, nothing flows through them.
_HEAD_ENDS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Shape", "Size"})
# Inputs that ONNX defines as FP32 whatever the data is (Resize: roi, scales).
_ALWAYS_FP32 = {"Resize": frozenset({1, 2})}


def write_half(source: Path, target: Path) -> None:
    """Write ``source`` (FP32 ONNX) as an FP16-typed graph to ``target``; raises EngineError."""
    model = onnx.load(str(source))
    _refuse_unfit_inputs(model.graph)
    _convert(model.graph, _float_types(model))
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        reason = " ".join(str(error).split())[:300]
        raise EngineError(f"{source.name} has no valid FP16 form: {reason}") from error
    onnx.save(model, str(target))


def _refuse_unfit_inputs(graph: onnx.GraphProto) -> None:
    for graph_input in graph.input:
        if graph_input.type.tensor_type.elem_type != TensorProto.UINT8:
            continue
        readers = {node.op_type for node in graph.node if graph_input.name in node.input}
        if readers != {"Cast"}:
            raise EngineError(
                f"UINT8 input {graph_input.name} feeds {', '.join(sorted(readers))}: TensorRT "
                "takes UINT8 only where it goes straight into a Cast"
            )
    if any(attribute.HasField("g") for node in graph.node for attribute in node.attribute):
        raise EngineError("the graph has branches or loops, which get no FP16 form here")


def _float_types(model: onnx.ModelProto) -> set[str]:
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = [*inferred.input, *inferred.value_info, *inferred.output]
    return {v.name for v in values if v.type.tensor_type.elem_type == TensorProto.FLOAT}


def _convert(graph: onnx.GraphProto, fp32_values: set[str]) -> None:
    head = _head(graph)
    outside = {value.name for value in graph.input}
    outside.update(name for node in graph.node if node.name in head for name in node.output)
    results = {value.name for value in graph.output} & fp32_values - outside
    weights = {t.name: t for t in graph.initializer if t.data_type == TensorProto.FLOAT}
    entering = outside & fp32_values

    nodes: list[onnx.NodeProto] = []
    halved: set[str] = set()
    for node in graph.node:
        if node.name not in head:
            read = _rename(node, weights.keys() | entering | results, results)
            nodes += [
                _cast(name, _half_name(name), TensorProto.FLOAT16)
                for name in read
                if name in entering and name not in halved
            ]
            halved.update(read)
            _convert_attributes(node)
        nodes.append(node)
    nodes += [_cast(_half_name(name), name, TensorProto.FLOAT) for name in sorted(results)]
    _replace(graph, nodes, [weights[name] for name in weights if name in halved])


def _rename(node: onnx.NodeProto, inputs: set[str], outputs: set[str]) -> list[str]:
    """Point a node at the FP16 form of those values; returns the inputs renamed, in order."""
    read = []
    for index, name in enumerate(node.input):
        if name in inputs and index not in _ALWAYS_FP32.get(node.op_type, ()):
            node.input[index] = _half_name(name)
            read.append(name)
    for index, name in enumerate(node.output):
        if name in outputs:
            node.output[index] = _half_name(name)
    return list(dict.fromkeys(read))


def _half_name(name: str) -> str:
    return f"{name}.fp16"


def _head(graph: onnx.GraphProto) -> set[str]:
    for index, node in enumerate(graph.node):
        node.name = node.name or f"node_{index}"
    reached, head = {value.name for value in graph.input}, set()
    for node in graph.node:
        if node.op_type not in _HEAD_ENDS and reached.intersection(node.input):
            head.add(node.name)
            reached.update(node.output)
    return head


def _cast(source: str, target: str, data_type: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], name=f"cast {target}", to=data_type)


def _convert_attributes(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        if node.op_type == "Cast" and attribute.name == "to":
            if attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
        elif attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
            attribute.t.CopyFrom(_half(attribute.t, attribute.t.name))
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            values = np.array(helper.get_attribute_value(attribute), dtype=np.float32)
            tensor = _half(numpy_helper.from_array(values), "")
            attribute.CopyFrom(helper.make_attribute("value", tensor))


def _half(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    values = numpy_helper.to_array(tensor)
    if values.size and not float(np.abs(values).max()) <= _FP16_MAX:
        raise EngineError(f"weight {tensor.name} exceeds what FP16 holds (±{_FP16_MAX:.0f})")
    return numpy_helper.from_array(values.astype(np.float16), name)


def _replace(
    graph: onnx.GraphProto, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]
) -> None:
    halves = [_half(tensor, _half_name(tensor.name)) for tensor in weights]
    still_read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in still_read]
    # Types of values between nodes are what just changed; onnx infers them anew.
    for field in (graph.node, graph.initializer, graph.value_info):
        del field[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept + halves)
