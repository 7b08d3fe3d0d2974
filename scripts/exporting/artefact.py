"""An exported file and its manifest: is it there, is it current, and how it is shown."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from common import manifest

if TYPE_CHECKING:
    import onnx

# Raise when the exported graph changes, so that files of the older graph are made again.
EXPORTER_VERSION = 1
_TOOLS = ("torch", "onnx", "onnxscript", "onnxruntime")
# The newest operator set that every supported ONNX Runtime and TensorRT release reads.
DEFAULT_OPSET = 20


class ExportError(Exception):
    """The ONNX file could not be made or answers wrongly, and was not published; one line."""


def tool_versions(*more: str) -> dict[str, str]:
    """Versions of everything that shapes the file; read without importing PyTorch."""
    return {
        "exporter": str(EXPORTER_VERSION),
        **{name: version(name) for name in (*more, *_TOOLS)},
    }


def intact(model: Path, manifest_file: Path) -> dict[str, Any] | None:
    """The manifest if it is readable and its checksum is the model's, else None."""
    try:
        found = manifest.read(manifest_file)
    except manifest.ManifestError:
        return None
    if not model.is_file() or manifest.sha256_of(model) != found["onnx"].get("sha256"):
        return None
    return found


def onnx_entry(path: Path, proto: onnx.ModelProto) -> dict[str, Any]:
    """The manifest's ``onnx`` object for a written file."""
    opset = next(o.version for o in proto.opset_import if o.domain in ("", "ai.onnx"))
    return {
        "sha256": manifest.sha256_of(path),
        "opset": opset,
        "ir_version": proto.ir_version,
        "bytes": path.stat().st_size,
    }


def print_table(made: dict[str, Any], file: Path) -> None:
    """The result for people, on stdout."""
    figures, recipe = made["parity"], made["recipe"]
    meaning = "" if made["meaningful"] else "  (random: answers are meaningless)"
    table = Table(show_header=False)
    table.add_row("file", file.name)
    table.add_row("weights", made["weights"]["name"] + meaning)
    table.add_row("recipe", f"resize {recipe['resize_size']}, crop {recipe['crop_size']}")
    table.add_row("size", f"{made['onnx']['bytes'] / 1e6:.1f} MB, opset {made['onnx']['opset']}")
    table.add_row(
        "against PyTorch",
        f"cosine >= {figures['cosine_min']:.7f}, largest logit difference "
        f"{figures['max_abs_logit_diff']:.2g}, top-1 equal {figures['top1_agreement']:.0%} "
        f"of {figures['images']} ({figures['photographs']} photographs)",
    )
    Console().print(table)
