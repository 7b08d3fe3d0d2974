"""What an engine is built from: the shape profile, the FP16 graph, and when two networks agree."""

from __future__ import annotations

from pathlib import Path

import engine_standins as standins
import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper
from tritonclient.grpc import model_config_pb2

from engine import EngineError, half, parity, pbtxt
from engine.profile import EngineProfile, read_profile

ROOT = Path(__file__).resolve().parents[2]
PROFILE = EngineProfile("input", "TYPE_UINT8", (16, 16, 3), "output", 8, 32, ())


def profile_of(tmp_path: Path, text: str) -> EngineProfile:
    config = tmp_path / "tensorrt.pbtxt"
    config.write_text(text)
    return read_profile(config)


def test_the_usual_batch_is_the_largest_preferred_size_where_no_parameter_names_it(
    tmp_path: Path,
) -> None:
    text = standins.CONFIG.split("parameters")[0]
    text += "dynamic_batching { preferred_batch_size: [ 4, 16 ] }"
    assert profile_of(tmp_path, text).opt_batch == 16


def test_the_usual_batch_is_a_quarter_of_the_largest_where_nothing_names_it(
    tmp_path: Path,
) -> None:
    assert profile_of(tmp_path, standins.CONFIG.split("parameters")[0]).opt_batch == 8


@pytest.mark.parametrize("path", sorted((ROOT / "model_repository").rglob("*.pbtxt")), ids=str)
def test_the_small_reader_agrees_with_protobuf(path: Path) -> None:
    text = path.read_text()
    schema = text_format.Parse(text, model_config_pb2.ModelConfig())
    message = pbtxt.parse(text)
    assert int(message["max_batch_size"][0]) == schema.max_batch_size
    for field in ("input", "output"):
        read = [
            (tensor["name"][0], tensor["data_type"][0], [int(size) for size in tensor["dims"]])
            for tensor in message[field]
        ]
        expected = [
            (tensor.name, model_config_pb2.DataType.Name(tensor.data_type), list(tensor.dims))
            for tensor in getattr(schema, field)
        ]
        assert read == expected
    parameters = {
        p["key"][0]: p["value"][0]["string_value"][0] for p in message.get("parameters", [])
    }
    assert parameters == {key: value.string_value for key, value in schema.parameters.items()}


@pytest.mark.parametrize("text", ["input [ {", "a: }", "a: 'open", "{ a: 1 }", "max_batch_size:"])
def test_broken_text_format_is_an_error_of_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"unexpected|missing"):
        pbtxt.parse(text)


def halved(model: onnx.ModelProto, tmp_path: Path) -> onnx.ModelProto:
    onnx.save(model, str(tmp_path / "full.onnx"))
    half.write_half(tmp_path / "full.onnx", tmp_path / "half.onnx")
    return onnx.load(str(tmp_path / "half.onnx"))


def test_the_fp16_graph_casts_once_after_the_normalisation_and_once_at_the_end(
    tmp_path: Path,
) -> None:
    graph = halved(standins.network(), tmp_path).graph
    assert [node.op_type for node in graph.node] == (
        ["Cast", "Sub", "Mul", "Transpose", "Cast", "Conv", "Relu", "Flatten", "Gemm", "Cast"]
    )
    assert graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    assert types == {
        "offset": TensorProto.FLOAT,
        "scale": TensorProto.FLOAT,
        "kernel.fp16": TensorProto.FLOAT16,
        "matrix.fp16": TensorProto.FLOAT16,
    }


def test_an_fp32_input_is_cast_straight_away(tmp_path: Path) -> None:
    model = standins.network()
    graph = model.graph
    kept = list(graph.node)[4:]
    del graph.node[:], graph.input[:]
    graph.node.extend(kept)
    graph.input.append(helper.make_tensor_value_info("planes", TensorProto.FLOAT, ["n", 3, 16, 16]))
    made = halved(model, tmp_path).graph
    operators = [node.op_type for node in made.node]
    assert operators == ["Cast", "Conv", "Relu", "Flatten", "Gemm", "Cast"]
    assert made.input[0].type.tensor_type.elem_type == TensorProto.FLOAT


def test_a_uint8_input_that_is_transposed_first_is_refused(tmp_path: Path) -> None:
    model = standins.network()
    model.graph.node.insert(0, helper.make_node("Transpose", ["input"], ["turned"]))
    model.graph.node[1].input[0] = "turned"
    with pytest.raises(EngineError, match="straight into a Cast"):
        halved(model, tmp_path)


def test_a_weight_beyond_fp16_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="exceeds what FP16 holds"):
        halved(standins.network(scale=1e6), tmp_path)


def test_the_fixed_input_is_the_same_every_time_and_uses_the_whole_range() -> None:
    first, second = parity.fixed_input(PROFILE), parity.fixed_input(PROFILE)
    assert np.array_equal(first, second)
    assert (first.shape, first.dtype) == ((4, 16, 16, 3), np.dtype(np.uint8))
    assert first.min() < 16 and first.max() > 239
    assert all(not np.array_equal(first[0], other) for other in first[1:])


def test_two_classes_that_nearly_tie_may_change_places() -> None:
    reference = np.float32([[5.00, 4.95, -3.0, 0.5]])
    swapped = np.float32([[4.97, 4.98, -3.0, 0.5]])
    assert parity.require_agreement("the engine", reference, swapped).top1_agreement == 1


def test_two_classes_that_are_apart_may_not_change_places() -> None:
    reference = np.float32([[50.0, 49.5, -3.0, 0.5]])
    swapped = np.float32([[49.7, 49.8, -3.0, 0.5]])
    with pytest.raises(EngineError, match="top-1 equal for 0%"):
        parity.require_agreement("the engine", reference, swapped)


def test_trtexecs_spelling_of_nan_and_inf_is_read(tmp_path: Path) -> None:
    exported = tmp_path / "output.json"
    exported.write_text('[ { "name" : "output", "values" : [ -nan, nan, -inf, inf, 1.5e-3 ] } ]')
    logits = parity.plan_logits(exported, PROFILE, 1)
    assert np.isnan(logits[0, :2]).all()
    assert logits[0, 2:].tolist() == [-np.inf, np.inf, np.float32(1.5e-3)]


def test_an_export_without_the_output_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    exported = tmp_path / "output.json"
    exported.write_text('[ { "name" : "other", "values" : [ 1 ] } ]')
    with pytest.raises(EngineError, match="exported no output output for 1 images"):
        parity.plan_logits(exported, PROFILE, 1)
