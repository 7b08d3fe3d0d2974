"""Where a new pipeline's preprocessing recipe comes from: options first, then the export."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from common import manifest
from common.manifest import Recipe
from scaffold import ScaffoldError
from scaffold.classifier import Classifier


def exported_manifest(onnx_file: Path) -> dict[str, Any] | None:
    """The manifest that an export script wrote for exactly these bytes, if there is one."""
    for file in (onnx_file.with_suffix(".json"), onnx_file.parent / manifest.MANIFEST_NAME):
        try:
            found = manifest.read(file)
        except manifest.ManifestError:
            continue
        if found["onnx"].get("sha256") == manifest.sha256_of(onnx_file):
            return found
    return None


def choose(
    options: argparse.Namespace, classifier: Classifier, exported: dict[str, Any] | None
) -> Recipe:
    """The recipe to serve with; raises ScaffoldError where a part of it is unknown."""
    known = manifest.recipe_of(exported) if exported else None
    mean = options.mean or (known.mean if known else ())
    std = options.std or (known.std if known else ())
    if classifier.takes_pixels and (options.mean or options.std):
        raise ScaffoldError("this graph takes UINT8 and normalises inside: leave out --mean, --std")
    if not classifier.takes_pixels and not (mean and std):
        raise ScaffoldError("this graph takes normalised floats: give --mean and --std")
    if max((*mean, *std), default=0) > 1:
        raise ScaffoldError("--mean and --std are on the 0..1 scale: divide 0..255 values by 255")
    resize = options.resize or (known.resize_size if known else None)
    if resize is None:
        raise ScaffoldError("give --resize: the size these weights were evaluated with")
    return Recipe(
        resize_size=resize,
        crop_size=classifier.side_px,
        resize_mode=options.resize_mode or (known.resize_mode if known else "shortest_edge"),
        mean=mean,
        std=std,
        normalised_in_graph=classifier.takes_pixels,
    )
