"""Logits and statuses of one request → one strict JSON text per image."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import ImageError, InternalError, split_status
from common.parameters import PostprocessConfig
from common.postprocess.classification import Merge, Prediction, rank, softmax
from common.postprocess.labels import load_labels
from common.postprocess.options import RequestOptions, parse_options

log = logging.getLogger(__name__)

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Answer:
    """One image's JSON, and for the metrics its error code or top-1 probability.

    ``arose_here`` tells an error of this stage from one that came with the image.
    """

    text: bytes
    error_code: str | None = None
    arose_here: bool = False
    top1_probability: float | None = None
    predictions: int = 0


class Postprocessor:
    """The business layer of one pipeline; immutable once built."""

    def __init__(self, config: PostprocessConfig, folder: Path, class_count: int) -> None:
        self.config = config
        self.labels = load_labels(folder, config, class_count)
        self._merge = Merge.of(self.labels.groups, class_count)
        camel = config.field_case == "camel"
        self._class_id = "classId" if camel else "class_id"
        self._class_ids = "classIds" if camel else "class_ids"

    def options(self, parameters: Mapping[str, object]) -> RequestOptions:
        """Checked request parameters; raises RequestError."""
        return parse_options(parameters, self.config, self.labels)

    def __call__(
        self, logits: np.ndarray, statuses: Sequence[str], options: RequestOptions
    ) -> list[Answer]:
        """One answer per row of ``logits`` float32 (N, C); never raises."""
        return [self._one(row, status, options) for row, status in zip(logits, statuses)]

    def _one(self, logits: np.ndarray, status: str, options: RequestOptions) -> Answer:
        if status:
            code, message = split_status(status)
            return _failed(code, message, arose_here=False)
        try:
            probabilities = softmax(logits)
            merge = self._merge if options.group else None
            predictions = rank(probabilities, options.top_k, options.threshold, merge)
            text = _json(self._result(predictions, options.language))
        except ImageError as error:
            return _failed(error.code, str(error), arose_here=True)
        except Exception:
            log.exception("postprocessing one image failed")
            return _failed(InternalError.code, str(InternalError()), arose_here=True)
        return Answer(text, None, False, float(probabilities.max()), len(predictions))

    def _result(self, predictions: list[Prediction], language: str) -> dict[str, Any]:
        names = [self._name(prediction, language) for prediction in predictions]
        confidences = [round(p.probability, self.config.decimals) for p in predictions]
        if self.config.layout == "columns":
            return {
                self._class_ids: [p.class_id for p in predictions],
                "classes": names,
                "confidences": confidences,
            }
        return {
            "predictions": [
                {
                    self._class_id: p.class_id,
                    "class": name,
                    **({"group": p.group.name} if p.group else {}),
                    "confidence": confidence,
                }
                for p, name, confidence in zip(predictions, names, confidences)
            ]
        }

    def _name(self, prediction: Prediction, language: str) -> str:
        if prediction.group:
            return prediction.group.labels[language]
        assert prediction.class_id is not None
        return self.labels.by_language[language][prediction.class_id]


def _failed(code: str, message: str, arose_here: bool) -> Answer:
    return Answer(_json({"error": code, "message": message}), code, arose_here)


def _json(value: dict[str, Any]) -> bytes:
    return _ENCODER.encode(value).encode()
