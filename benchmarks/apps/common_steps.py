"""What gateway and monolith do alike: prepare an image, interpret logits.

Settings come from the environment, as uvicorn's workers are processes of their own:
BENCH_PREPARE (opencv, ours).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import pipelines
from common.preprocess.base64 import file_bytes
from common.preprocess.image import prepare

PIPELINE = "resnet50"
TOP = 5

Prepared = Callable[[str], np.ndarray]


def preparation() -> Prepared:
    """Base64 text → one row: FP32 [3, 224, 224] from OpenCV, UINT8 [224, 224, 3] from ours."""
    if os.environ["BENCH_PREPARE"] == "opencv":
        from benchmarks.tutorial import opencv

        transform = opencv(pipelines.recipe(PIPELINE))
        return lambda text: transform(base64.b64decode(text))
    stage = pipelines.preprocessor(PIPELINE, threads=1)
    config = stage.config
    stage.close()
    return lambda text: prepare(file_bytes(text.encode(), config.max_bytes), config).pixels


def interpretation() -> Callable[[np.ndarray], dict[str, Any]]:
    """Logits (1000,) → the five best classes, as tutorials write it."""
    folder = pipelines.REPOSITORY / f"{PIPELINE}_postprocess" / pipelines.VERSION
    labels = json.loads((folder / "labels_en.json").read_text(encoding="utf-8"))

    def interpret(logits: np.ndarray) -> dict[str, Any]:
        exponentials = np.exp(logits - logits.max())
        probabilities = exponentials / exponentials.sum()
        best = np.argsort(probabilities)[::-1][:TOP]
        return {
            "predictions": [
                {
                    "class_id": int(i),
                    "class": labels[i],
                    "confidence": round(float(probabilities[i]), 4),
                }
                for i in best
            ]
        }

    return interpret
