"""The served graph: a PyTorch classifier wrapped for Triton and written as one ONNX file."""

from __future__ import annotations

import hashlib
import logging
import pickle
import warnings
from pathlib import Path
from typing import Literal

import onnx
import torch
from torch import nn
from torchvision.models import resnet50

from common.manifest import Recipe
from exporting.weights import Source, WeightsError

Precision = Literal["fp32", "fp16"]

INPUT_NAME = "input"
OUTPUT_NAME = "output"
CLASS_COUNT = 1000


class ServedClassifier(nn.Module):
    """UINT8 NHWC pixels in, FP32 logits out; mean and std are applied inside.

    With ``fp16`` the classifier computes in half precision; the normalisation before it and the
    logits after it stay FP32, so inputs and outputs are the same in both precisions.
    """

    offset: torch.Tensor
    scale: torch.Tensor

    def __init__(self, classifier: nn.Module, recipe: Recipe, precision: Precision) -> None:
        super().__init__()
        self.classifier = classifier.half() if precision == "fp16" else classifier
        self.half_precision = precision == "fp16"
        mean = torch.tensor(recipe.mean, dtype=torch.float64) * 255
        std = torch.tensor(recipe.std, dtype=torch.float64) * 255
        self.register_buffer("offset", mean.float())
        self.register_buffer("scale", (1 / std).float())

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """[N, H, W, 3] uint8 → [N, classes] float32."""
        normalised = (input.float() - self.offset) * self.scale
        # Without contiguous() the exporter carries the strides on and the average pool becomes
        # a tangle of Shape, Range and Gather nodes.
        image = normalised.permute(0, 3, 1, 2).contiguous()
        if not self.half_precision:
            return self.classifier(image)
        return self.classifier(image.half()).float()


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
    """Write ``model`` as one ONNX file with a dynamic batch axis and return what was written.

    The forward argument must be called ``input``; the file's tensors are ``input``, ``output``.
    """
    batch = torch.export.Dim("batch", min=1)
    # The exporter reports its progress and known quirks here; the checks below decide.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model,
            (example,),
            input_names=[INPUT_NAME],
            output_names=[OUTPUT_NAME],
            dynamic_shapes={INPUT_NAME: {0: batch}},
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    _describe(proto, metadata)
    onnx.save_model(proto, path, save_as_external_data=False)
    onnx.checker.check_model(str(path), full_check=True)
    return proto


def _describe(proto: onnx.ModelProto, metadata: dict[str, str]) -> None:
    """Replace the exporter's notes, source paths of the machine among them, by ours."""
    proto.doc_string = metadata.pop("doc", "")
    for node in proto.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in [*proto.graph.value_info, *proto.graph.input, *proto.graph.output]:
        del value.metadata_props[:]
    for tensor in proto.graph.initializer:
        del tensor.metadata_props[:]
    del proto.graph.metadata_props[:]
    del proto.metadata_props[:]
    onnx.helper.set_model_props(proto, metadata)


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
    """Check names, types and shapes, both with one leading dynamic axis; raises RuntimeError."""
    found = signature(proto)
    for name, (kind, shape) in {INPUT_NAME: expected_input, OUTPUT_NAME: expected_output}.items():
        found_kind, found_shape = found.pop(name, ("nothing", [""]))
        if found_kind != kind or found_shape[1:] != shape or isinstance(found_shape[0], int):
            raise RuntimeError(
                f"tensor {name!r} is {found_kind} {found_shape}, not {kind} [batch, {shape}]"
            )
    if found:
        raise RuntimeError(f"unexpected tensors in the graph: {sorted(found)}")


def opset_of(proto: onnx.ModelProto) -> int:
    """Version of the standard operator set that the file declares."""
    return next(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
