"""What Pillow opens → which way up it is, and 8-bit grey or RGB, alpha laid on the background."""

from __future__ import annotations

import numpy as np
from PIL import Image

from common.errors import UnsupportedFormat
from common.preprocess.geometry import TURNS

_ORIENTATION_TAG = 0x0112
_TIFF_BITS_PER_SAMPLE, _TIFF_PHOTOMETRIC, _TIFF_WHITE_IS_ZERO = 258, 262, 0


def exif_orientation(image: Image.Image) -> int:
    """How an opened picture is stored (EXIF 2.32, tag 0x0112): 1 to 8, 1 where nothing says so."""
    # Pillow turns a TIFF upright itself while loading, and its size is the upright one.
    if image.format == "TIFF" or "exif" not in image.info:
        return 1
    try:
        value = image.getexif().get(_ORIENTATION_TAG, 1)
    except Exception:  # damaged metadata, whatever Pillow raises for it
        return 1
    return value if value in TURNS else 1


def to_grey_or_rgb(image: Image.Image, background: tuple[int, ...]) -> Image.Image:
    """A loaded picture as mode L or RGB.

    16-bit grey keeps its high byte, as Pillow itself does for 16-bit colour. Transparent pixels
    show ``background`` (RGB, 0 to 255). ICC profiles are not applied. Raises UnsupportedFormat for
    pixel types without a fixed range (32-bit integer, floating point) and for Lab.
    """
    if image.mode.startswith("I;16"):
        return _from_16_bit(image, background)
    if _has_alpha(image):
        return _flatten(image, background)
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode in ("P", "CMYK", "YCbCr", "RGBX"):
        return image.convert("RGB")
    raise UnsupportedFormat(f"pixels of type {image.mode} have no fixed range of brightness")


def _has_alpha(image: Image.Image) -> bool:
    return image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info


def _flatten(image: Image.Image, background: tuple[int, ...]) -> Image.Image:
    if image.mode == "La":
        image = image.convert("LA")
    rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    alpha = rgba.getchannel("A")
    if alpha.getextrema() == (255, 255):
        return rgba.convert("RGB")
    canvas = Image.new("RGB", rgba.size, background)
    canvas.paste(rgba, mask=alpha)
    return canvas


def _from_16_bit(image: Image.Image, background: tuple[int, ...]) -> Image.Image:
    levels = np.asarray(image)
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(_TIFF_BITS_PER_SAMPLE, 16)
    bits = bits[0] if isinstance(bits, tuple) else bits
    grey = (levels >> (max(bits, 8) - 8)).astype(np.uint8)
    if tags.get(_TIFF_PHOTOMETRIC) == _TIFF_WHITE_IS_ZERO:
        grey = 255 - grey
    clear = image.info.get("transparency")
    if not isinstance(clear, int):
        return Image.fromarray(grey)
    rgb = np.repeat(grey[..., None], 3, axis=-1)
    rgb[levels == clear] = background
    return Image.fromarray(rgb)
