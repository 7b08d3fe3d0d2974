"""The served graph: a PyTorch classifier wrapped for Triton and written as one ONNX file."""

from __future__ import annotations

import hashlib
import logging
import pickle
import warnings
from pathlib import Path

import onnx
import torch
from torch import nn
from torchvision.models import resnet50

from common.manifest import Recipe
from exporting.artefact import ExportError
from exporting.weights import Source, WeightsError

INPUT_NAME = "input"
OUTPUT_NAME = "output"
CLASS_COUNT = 1000


class ServedClassifier(nn.Module):
    """UINT8 NHWC pixels in, FP32 logits out; mean and std are applied inside."""

    offset: torch.Tensor
    scale: torch.Tensor

    def __init__(self, classifier: nn.Module, recipe: Recipe) -> None:
        super().__init__()
        self.classifier = classifier
        mean = torch.tensor(recipe.mean, dtype=torch.float64) * 255
        std = torch.tensor(recipe.std, dtype=torch.float64) * 255
        self.register_buffer("offset", mean.float())
        self.register_buffer("scale", (1 / std).float())

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """[N, H, W, 3] uint8 → [N, classes] float32."""
        normalised = (input.float() - self.offset) * self.scale
        # Without contiguous() the exporter carries the strides on and the average pool becomes
        # a tangle of Shape, Range and Gather nodes.
        return self.classifier(normalised.permute(0, 3, 1, 2).contiguous())


def build_resnet50(source: Source) -> tuple[nn.Module, str]:
    """ResNet50 in eval mode with the source's weights, and the weights' sha256; WeightsError."""
    if source.seed is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(source.seed)
            network = resnet50(weights=None)
        return network.eval(), _digest_of(network)
    assert source.file is not None
    network = resnet50(weights=None)
    try:
        network.load_state_dict(_read_state(source.file))
    except (RuntimeError, AttributeError, TypeError) as error:
        detail = " ".join(str(error).split())[:160]
        raise WeightsError(f"{source.file} does not hold torchvision ResNet50: {detail}") from error
    return network.eval(), source.sha256


def _read_state(file: Path) -> dict[str, torch.Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # weights_only: a .pth is a pickle, and only this mode does not run code from it.
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise WeightsError(
            f"{file} is not a PyTorch state dict that can be read without running code: "
            "save it with torch.save(model.state_dict(), FILE)"
        ) from error
    # torchvision's own training script saves {"model": state}.
    if isinstance(state, dict) and isinstance(state.get("model"), dict):
        state = state["model"]
    if not isinstance(state, dict):
        raise WeightsError(
            f"{file} holds {type(state).__name__} instead of a state dict: "
            "save it with torch.save(model.state_dict(), FILE)"
        )
    return state


def _digest_of(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def export(
    model: nn.Module,
    example: torch.Tensor,
    path: Path,
    *,
    opset: int,
    metadata: dict[str, str],
) -> onnx.ModelProto:
    """Write a one-argument ``model`` as one ONNX file with a dynamic batch axis, checked.

    The file's tensors are ``input`` and ``output``; ``metadata["doc"]`` becomes its description.
    Raises ExportError.
    """
    batch = torch.export.Dim("batch", min=1)
    # The exporter reports its progress and known quirks here; the checks below decide.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                model,
                (example,),
                input_names=[INPUT_NAME],
                output_names=[OUTPUT_NAME],
                dynamic_shapes=({0: batch},),
                opset_version=opset,
                dynamo=True,
                verbose=False,
            )
        assert program is not None
        proto = program.model_proto
        _describe(proto, metadata)
        onnx.save_model(proto, path, save_as_external_data=False)
        onnx.checker.check_model(str(path), full_check=True)
    except (
        torch.onnx.OnnxExporterError,
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
    ) as error:
        raise ExportError(f"no valid ONNX file: {' '.join(str(error).split())[:300]}") from error
    return proto


def _describe(proto: onnx.ModelProto, metadata: dict[str, str]) -> None:
    """Replace the exporter's notes, source paths of the machine among them, by ours."""
    proto.doc_string = metadata["doc"]
    for node in proto.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in [*proto.graph.value_info, *proto.graph.input, *proto.graph.output]:
        del value.metadata_props[:]
    for tensor in proto.graph.initializer:
        del tensor.metadata_props[:]
    del proto.graph.metadata_props[:]
    del proto.metadata_props[:]
    properties = {key: value for key, value in metadata.items() if key != "doc"}
    onnx.helper.set_model_props(proto, properties)


def signature(proto: onnx.ModelProto) -> dict[str, tuple[str, list[int | str]]]:
    """Each input's and output's element type and shape; a dynamic axis is its name."""

    def describe(value: onnx.ValueInfoProto) -> tuple[str, list[int | str]]:
        tensor = value.type.tensor_type
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
        return kind, [axis.dim_param or axis.dim_value for axis in tensor.shape.dim]

    return {value.name: describe(value) for value in [*proto.graph.input, *proto.graph.output]}


def require_signature(
    proto: onnx.ModelProto,
    expected_input: tuple[str, list[int]],
    expected_output: tuple[str, list[int]],
) -> None:
    """Check names, types and shapes, both with one leading dynamic axis; raises ExportError."""
    found = signature(proto)
    for name, (kind, shape) in {INPUT_NAME: expected_input, OUTPUT_NAME: expected_output}.items():
        found_kind, found_shape = found.pop(name, ("nothing", [""]))
        if found_kind != kind or found_shape[1:] != shape or isinstance(found_shape[0], int):
            raise ExportError(
                f"tensor {name!r} is {found_kind} {found_shape}, not {kind} [batch, {shape}]"
            )
    if found:
        raise ExportError(f"unexpected tensors in the graph: {sorted(found)}")
