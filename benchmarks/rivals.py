"""What preprocessing is compared with: the tutorials' OpenCV code, torchvision, a bare decode.

All take the bytes of a file, so the base64 text that the bundle's own path also decodes is their
advantage. All follow the same recipe (resize size, crop size, mean, std).
"""

from __future__ import annotations

import io
from collections.abc import Callable

import cv2
import numpy as np
import simplejpeg
import torch
from PIL import Image
from torchvision.transforms._presets import ImageClassification

from common.manifest import Recipe

# Every path gets one thread; how they scale is measured apart.
cv2.setNumThreads(1)
torch.set_num_threads(1)

Prepare = Callable[[bytes], object]


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


def torchvision(recipe: Recipe) -> Callable[[bytes], torch.Tensor]:
    """Pillow's decode and torchvision's own preset: FP32 [3, crop, crop]."""
    preset = ImageClassification(
        crop_size=recipe.crop_size,
        resize_size=recipe.resize_size,
        mean=recipe.mean,
        std=recipe.std,
    )

    def prepare(data: bytes) -> torch.Tensor:
        with Image.open(io.BytesIO(data)) as image:
            return preset(image.convert("RGB"))

    return prepare


def bare_jpeg_decode(data: bytes) -> np.ndarray:
    """libjpeg-turbo's whole decode to RGB and nothing else: uint8 [H, W, 3]."""
    return simplejpeg.decode_jpeg(data)
