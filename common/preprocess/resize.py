"""Antialiased bilinear resizing of one window, as Pillow does it, 2 to 3 times faster."""

from __future__ import annotations

import threading

import numpy as np
from cykooz_resizer import CropBox, FilterType, ResizeAlg, ResizeOptions, Resizer
from PIL import Image

from common.errors import ConfigurationError
from common.preprocess.geometry import Box

_BILINEAR = ResizeAlg.convolution(FilterType.bilinear)
# A Resizer holds a lock while it works: one per thread.
_local = threading.local()


def resize_window(source: Image.Image, box: Box, size: tuple[int, int]) -> Image.Image:
    """The part ``box`` of an L or RGB picture, resized to ``size`` (width, height)."""
    left, top = max(0.0, box[0]), max(0.0, box[1])
    right, bottom = min(float(source.width), box[2]), min(float(source.height), box[3])
    target = Image.new(source.mode, size)
    options = ResizeOptions(
        resize_alg=_BILINEAR,
        use_alpha=False,
        crop_box=CropBox(left, top, right - left, bottom - top),
    )
    _resizer().resize_pil(source, target, options)
    return target


def check_resizer() -> None:
    """Compare a known answer with Pillow's own resize.

    The resizer reads Pillow's pixel memory directly, whose layout may change between releases: a
    wrong pair must refuse to load, not answer from garbled pixels. Measured difference: 1 to 3 of
    255 levels, 0.15 on average.
    """
    y, x = np.mgrid[0:97, 0:131]
    pixels = np.stack([x * 255 // 130, y * 255 // 96, (x * y) % 256], axis=-1).astype(np.uint8)
    box = (10.25, 5.5, 120.75, 90.125)
    for mode in ("RGB", "L"):
        source = Image.fromarray(pixels).convert(mode)
        ours = np.asarray(resize_window(source, box, (56, 48)), dtype=np.int16)
        pillow = source.resize((56, 48), Image.Resampling.BILINEAR, box=box)
        difference = np.abs(ours - np.asarray(pillow, dtype=np.int16))
        if difference.max() > 3 or difference.mean() > 0.3:
            raise ConfigurationError(
                "cykooz-resizer with Pillow",
                f"known answer off by {difference.max()} levels",
                "the pair of versions pinned in pyproject.toml",
            )


def _resizer() -> Resizer:
    if not hasattr(_local, "resizer"):
        _local.resizer = Resizer()
    resizer: Resizer = _local.resizer
    return resizer
