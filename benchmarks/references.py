"""The exported networks as PyTorch holds them, for comparison."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks import pipelines
from common.manifest import ManifestError
from exporting import graph, weights
from exporting.parity import onnx_runner, torch_runner

RESNET50, EFFICIENTNET = "resnet50", "efficientnet_lite0"
PIPELINES = (EFFICIENTNET, RESNET50)

__all__ = ["EFFICIENTNET", "PIPELINES", "RESNET50", "network", "onnx_runner", "torch_runner"]


def network(pipeline: str) -> torch.nn.Module:
    """The network with exactly the weights that manifest.json names. ManifestError."""
    build: dict[str, Callable[[], tuple[torch.nn.Module, str]]] = {
        RESNET50: lambda: _resnet50(pipelines.served_manifest(RESNET50)["weights"]["name"]),
        EFFICIENTNET: _efficientnet,
    }
    module, sha256 = build[pipeline]()
    recorded = pipelines.served_manifest(pipeline)["weights"]["sha256"]
    if sha256 != recorded:
        raise ManifestError(f"{pipeline}: the exported weights are not those found here")
    return module.eval()


def _resnet50(name: str) -> tuple[torch.nn.Module, str]:
    try:
        return graph.build_resnet50(weights.fetch(weights.parse(name)))
    except weights.WeightsError as error:
        raise ManifestError(f"resnet50: {error}") from None


def _efficientnet() -> tuple[torch.nn.Module, str]:
    from efficientnet_lite_pytorch import EfficientNet

    from common.manifest import sha256_of
    from export_efficientnet import weights_file

    file = weights_file()
    module = EfficientNet.from_name("efficientnet-lite0")
    module.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    return module, sha256_of(file)
