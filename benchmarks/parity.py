"""Do the served answers agree with torchvision and PyTorch? Over many varied real crops.

Reference: Pillow's decode, turned upright, torchvision's own preset, the PyTorch network. Tested:
the bundle's preprocessing, the exported ONNX file and the bundle's postprocessing, from base64
text to the class ids in the JSON answer. A near-tie is a crop whose two best reference classes are
less than NEAR_TIE apart: one level of one pixel can turn those round.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from benchmarks import pipelines, references, tutorial
from benchmarks.crops import Crop
from common.postprocess.classification import softmax
from exporting.parity import preset

NEAR_TIE = 0.01
TOP = 5
GATE = 0.995

Say = Callable[[str], None]


@dataclass(frozen=True)
class Compared:
    """One crop: how the reference and the served answer relate; probabilities 0..1.

    ``opencv_top1_equal`` is None with random weights, which hardly notice how pixels were made.
    """

    set_name: str
    kind: str
    margin: float
    top1_equal: bool
    top5_overlap: float
    top1_in_top5: bool
    total_variation: float
    max_difference: float
    opencv_top1_equal: bool | None

    @property
    def is_near_tie(self) -> bool:
        """Whether the reference itself hardly decides."""
        return self.margin < NEAR_TIE


class Pipeline:
    """Both ways through one pipeline."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.manifest = pipelines.served_manifest(name)
        recipe = pipelines.recipe(name)
        self._preset = preset(recipe)
        self._torch = references.torch_runner(references.network(name))
        self._onnx = references.onnx_runner(pipelines.onnx_file(name))
        self._opencv = tutorial.opencv(recipe)
        self.preprocessor = pipelines.preprocessor(name, threads=1)
        self.postprocessor = pipelines.postprocessor(name)
        self._options = self.postprocessor.options({"top_k": TOP})

    @property
    def is_meaningful(self) -> bool:
        """False for random weights, which can hardly tell one picture from another."""
        return bool(self.manifest["meaningful"])

    def reference(self, data: bytes) -> np.ndarray:
        """PyTorch's probabilities."""
        with Image.open(io.BytesIO(data)) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
        return softmax(self._torch(self._preset(upright)[None].numpy())[0])

    def opencv(self, data: bytes) -> np.ndarray:
        """The same network after the tutorials' preprocessing."""
        return softmax(self._torch(self._opencv(data)[None])[0])

    def served(self, data: bytes) -> tuple[np.ndarray, list[int]]:
        """The bundle's probabilities, and the class ids of its JSON answer."""
        batch, (report,) = self.preprocessor([base64.b64encode(data)])
        if report.error:
            raise RuntimeError(f"a sound picture was refused: {report.error.status}")
        logits = self._onnx(batch)
        (answer,) = self.postprocessor(logits, [""], self._options)
        return softmax(logits[0]), class_ids(json.loads(answer.text))

    def compare(self, crop: Crop) -> Compared:
        """Everything about one crop."""
        reference = self.reference(crop.data)
        served, ids = self.served(crop.data)
        order = np.argsort(-reference, kind="stable")[:TOP]
        return Compared(
            crop.set_name,
            crop.kind,
            float(reference[order[0]] - reference[order[1]]),
            bool(ids[0] == order[0]),
            len(set(ids) & set(order.tolist())) / TOP,
            bool(order[0] in ids),
            float(np.abs(reference - served).sum() / 2),
            float(np.abs(reference - served).max()),
            bool(self.opencv(crop.data).argmax() == order[0]) if self.is_meaningful else None,
        )


def class_ids(result: dict[str, Any]) -> list[int]:
    """The ranked class ids of one answer in the layout of objects."""
    return [prediction["class_id"] for prediction in result["predictions"]]


def summary(pipeline: Pipeline, compared: Sequence[Compared]) -> dict[str, Any]:
    """Figures of all crops and of each set; percentages 0..100."""
    names = list(dict.fromkeys(c.set_name for c in compared))
    return {
        "pipeline": pipeline.name,
        "weights": pipeline.manifest["weights"]["name"],
        "meaningful": pipeline.is_meaningful,
        "all": _figures(compared),
        "sets": {name: _figures([c for c in compared if c.set_name == name]) for name in names},
        "differing": [
            {"set": c.set_name, "kind": c.kind, "margin": round(c.margin, 4)}
            for c in compared
            if not c.top1_equal
        ],
        "total_variation": [round(c.total_variation, 5) for c in compared],
    }


def _figures(compared: Sequence[Compared]) -> dict[str, Any]:
    clear = [c for c in compared if not c.is_near_tie]
    distances = [c.total_variation for c in compared]
    figures = {
        "crops": len(compared),
        "near_ties": len(compared) - len(clear),
        "top1_percent": _percent(c.top1_equal for c in compared),
        "top1_percent_without_ties": _percent(c.top1_equal for c in clear),
        "top1_in_top5_percent": _percent(c.top1_in_top5 for c in compared),
        "top5_overlap_percent": _percent(c.top5_overlap for c in compared),
        "total_variation_median": round(float(np.median(distances)), 4),
        "total_variation_p99": round(float(np.percentile(distances, 99)), 4),
        "max_probability_difference": round(max(c.max_difference for c in compared), 4),
    }
    opencv = [c.opencv_top1_equal for c in clear if c.opencv_top1_equal is not None]
    if opencv:
        figures["opencv_top1_percent_without_ties"] = _percent(opencv)
    return figures


def _percent(values: Iterable[float]) -> float:
    listed = list(values)
    return round(100 * sum(listed) / len(listed), 2) if listed else 100.0


def passes(summarised: dict[str, Any]) -> bool:
    """Whether a pipeline with real weights agrees on every set, near-ties left out."""
    if not summarised["meaningful"]:
        return True
    shares = [f["top1_percent_without_ties"] for f in summarised["sets"].values()]
    return min([*shares, summarised["all"]["top1_percent_without_ties"]]) >= 100 * GATE
