"""What a case is, the picture most of them show, and the reference preprocessing."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F


@dataclass(frozen=True)
class Case:
    """One element and its answer: an upright RGB picture (before resizing), or error codes.

    With both, either is right. ``max_levels`` and ``mean_levels`` bound the difference to the
    reference, of 255 levels.
    """

    kind: str
    name: str
    element: bytes = field(repr=False)
    shows: Image.Image | None = field(default=None, repr=False)
    codes: tuple[str, ...] = ()
    max_levels: float = 2
    mean_levels: float = 0.2

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def scene(width: int = 120, height: int = 80, seed: int = 7) -> Image.Image:
    """An asymmetric RGB picture: a gradient, a bright corner, a dark bar and mild structure."""
    y, x = np.mgrid[0:height, 0:width]
    rng = np.random.default_rng(seed)
    noise = rng.integers(-12, 13, (height, width, 3))
    base = np.stack(
        [x * 255 // width, y * 255 // height, (x + 2 * y) * 255 // (width + 2 * height)]
    )
    pixels = np.clip(base.transpose(1, 2, 0) + noise, 0, 255).astype(np.uint8)
    pixels[: height // 5, : width // 6] = (250, 240, 30)
    pixels[height // 2 : height // 2 + 3, width // 2 :] = (10, 10, 40)
    return Image.fromarray(pixels)


def encoded(image: Image.Image, format_name: str, **options: Any) -> bytes:
    """The picture as a file of that format."""
    stream = io.BytesIO()
    image.save(stream, format_name, **options)
    return stream.getvalue()


def decoded(data: bytes) -> Image.Image:
    """What Pillow shows of a file, as RGB."""
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")


def reference(image: Image.Image, resize_size: int = 232, crop_size: int = 224) -> np.ndarray:
    """torchvision's ImageClassification preset up to the crop: uint8 (crop, crop, 3)."""
    resized = F.resize(image, [resize_size], InterpolationMode.BILINEAR, antialias=True)
    return np.asarray(F.center_crop(resized, [crop_size]))
