"""What preprocessing is compared with beside the tutorials' code: torchvision, a bare decode.

All take the bytes of a file, so the base64 text that the bundle's own path also decodes is their
advantage. All follow the same recipe (resize size, crop size, mean, std).
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import simplejpeg
import torch
from PIL import Image
from torchvision.transforms._presets import ImageClassification

from common.manifest import Recipe

# Every path gets one thread; how they scale is measured apart.
torch.set_num_threads(1)


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
