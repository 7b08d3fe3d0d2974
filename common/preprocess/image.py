"""An image file → uint8 RGB pixels of the recipe's size.

The reference is Pillow's decode, EXIF-upright, alpha laid on the background, then torchvision's
ImageClassification preset. Only the header is read before the limits are checked.
"""

from __future__ import annotations

import io
import time
import warnings
from dataclasses import dataclass

import numpy as np
from PIL import Image

from common.errors import CorruptImage, ImageError, ImageTooLarge, UnsupportedFormat
from common.parameters import PreprocessConfig
from common.preprocess import formats, jpeg
from common.preprocess.geometry import TURNS, Window, stored_window
from common.preprocess.pixels import exif_orientation, to_grey_or_rgb
from common.preprocess.resize import resize_window

# Our own limit is checked on the header, before Pillow decodes anything.
Image.MAX_IMAGE_PIXELS = None
# Pillow reports damaged metadata as warnings; the picture is judged by its pixels.
warnings.filterwarnings("ignore", module=r"PIL\..*")


@dataclass(frozen=True)
class Decoded:
    """One picture's pixels, uint8 (crop_size, crop_size, 3), and what it took."""

    pixels: np.ndarray
    width_px: int
    height_px: int
    decode_s: float
    resize_s: float


def prepare(data: bytes, config: PreprocessConfig) -> Decoded:
    """Decode, orient, flatten, resize and crop one image file.

    Raises an ImageError: UnsupportedFormat, CorruptImage or ImageTooLarge.
    """
    format_name = formats.sniff(data)
    if format_name not in config.formats:
        raise UnsupportedFormat(f"accepted formats: {', '.join(config.formats)}")
    formats.check_container(data, format_name)
    try:
        return _prepare(data, format_name, config)
    except (UnsupportedFormat, ImageTooLarge):
        raise
    except Exception as error:
        for sparer in formats.without_metadata(data, format_name):
            try:
                return _prepare(sparer, format_name, config)
            except Exception:
                continue
        if isinstance(error, ImageError):
            raise
        raise CorruptImage(f"the {format_name} image cannot be decoded in full") from error


def _prepare(data: bytes, format_name: str, config: PreprocessConfig) -> Decoded:
    started = time.perf_counter()
    if format_name == "JPEG":
        header = jpeg.header(data)
        (width, height), orientation = header.size, header.orientation
        window = _window(width, height, orientation, config)
        upright = jpeg.decode(data, header, window.full_size, config)
    else:
        with Image.open(io.BytesIO(data), formats=[format_name]) as image:
            (width, height), orientation = image.size, exif_orientation(image)
            window = _window(width, height, orientation, config)
            image.load()
            upright = to_grey_or_rgb(image, config.background)
    decoded = time.perf_counter()
    left, top, right, bottom = window.box
    # A reduced decode keeps its fraction of the edges: scale by what was decoded, not by 8.
    scale_x, scale_y = _scale(upright.width, width), _scale(upright.height, height)
    box = (left / scale_x, top / scale_y, right / scale_x, bottom / scale_y)
    small = resize_window(upright, box, window.size, window.horizontal_first)
    if small.mode == jpeg.RGBX:
        small = jpeg.to_rgb(small)
    if orientation in TURNS:
        small = small.transpose(TURNS[orientation])
    if small.mode != "RGB":
        small = small.convert("RGB")
    if small.size != (config.crop_size, config.crop_size):
        canvas = Image.new("RGB", (config.crop_size, config.crop_size), config.background)
        canvas.paste(small, window.offset)
        small = canvas
    pixels = np.frombuffer(small.tobytes(), np.uint8).reshape(config.crop_size, config.crop_size, 3)
    return Decoded(pixels, width, height, decoded - started, time.perf_counter() - decoded)


def _window(width: int, height: int, orientation: int, config: PreprocessConfig) -> Window:
    """What of the picture is kept, or an ImageError before anything is decoded."""
    if width < 1 or height < 1:
        raise CorruptImage("the image has no pixels")
    if width * height > config.max_pixels:
        raise ImageTooLarge(
            f"{width}x{height} is {width * height} pixels; at most {config.max_pixels}"
        )
    return stored_window(width, height, orientation, config)


def _scale(decoded: int, stored: int) -> int:
    """By how much libjpeg reduced this side: it rounds sizes up at 1/1, 1/2, 1/4 and 1/8."""
    return next((s for s in (1, 2, 4, 8) if -(-stored // s) == decoded), 1)
