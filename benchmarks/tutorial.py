"""The preprocessing that tutorials show: OpenCV and numpy. No PyTorch in this module's process."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

from common.manifest import Recipe

# One thread, as the other paths get; how they scale is measured apart.
cv2.setNumThreads(1)


def opencv(recipe: Recipe) -> Callable[[bytes], np.ndarray]:
    """imdecode, INTER_LINEAR, centre crop, float32 normalise, transpose: FP32 [3, crop, crop]."""
    mean, std = np.array(recipe.mean, np.float32), np.array(recipe.std, np.float32)
    crop = recipe.crop_size

    def prepare(data: bytes) -> np.ndarray:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        if pixels is None:
            raise ValueError("no image")
        pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
        height, width = pixels.shape[:2]
        scale = recipe.resize_size / min(height, width)
        size = (round(width * scale), round(height * scale))
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
        top, left = (size[1] - crop) // 2, (size[0] - crop) // 2
        pixels = pixels[top : top + crop, left : left + crop]
        normalised = (pixels.astype(np.float32) / 255.0 - mean) / std
        return np.ascontiguousarray(normalised.transpose(2, 0, 1))

    return prepare
