"""JPEG pixels: by TurboJPEG where the file is as it should be, else as Pillow judges it.

Both are libjpeg-turbo and give the same pixels. Pillow has it write one row, reads that row at once
and copies it; where the row's address is a multiple of 32, libjpeg-turbo writes past the cache and
the copy waits for memory: measured 10 to 25 % of a decode that TurboJPEG saves.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import simplejpeg
from PIL import Image

from common.errors import CorruptImage
from common.parameters import PreprocessConfig
from common.preprocess import formats
from common.preprocess.pixels import exif_orientation, to_grey_or_rgb

# Neither Pillow nor the resizer knows three colours and an idle byte over foreign memory; CMYK is
# the mode whose four bytes both treat alike.
RGBX = "CMYK"
_THREE_COLOURS = ("YCbCr", "RGB")
# libjpeg fills what is missing with samples of 128; 126 to 129 after colour conversion.
_FILL_LEVELS = range(126, 130)
# Enough for several blocks, whatever the file's code table; holds no marker.
_MORE_DATA = b"\x55" * 4096


@dataclass(frozen=True)
class Header:
    """Size as stored, in pixels, EXIF orientation (1 where there is none), and kind of colours."""

    size: tuple[int, int]
    orientation: int
    has_three_colours: bool


def header(data: bytes) -> Header:
    """Read the header; raises what Pillow raises for a file that it does not take.

    TurboJPEG does it where neither EXIF nor a warning is in the way: measured 1.4 µs against 19.
    """
    ordinary = None if formats.jpeg_has_exif(data) else _read_header(data)
    if ordinary:
        return ordinary
    with _opened(data) as image:
        return Header(image.size, exif_orientation(image), image.mode == "RGB")


def decode(
    data: bytes, header: Header, full_size: tuple[int, int], config: PreprocessConfig
) -> Image.Image:
    """The pixels of a JPEG: four bytes each under the label RGBX, or mode L or RGB.

    ``full_size`` (width, height) is what the whole picture will be resized to; libjpeg reduces to
    1/2, 1/4 or 1/8 while jpeg_scale_gap times that remains. Raises CorruptImage where the data
    ends early.
    """
    gap = config.jpeg_scale_gap
    wanted_px = (full_size[0] * gap, full_size[1] * gap) if gap else None
    pixels = _decode_rgbx(data, header.size, wanted_px) if header.has_three_colours else None
    if pixels is not None:
        return pixels
    with _opened(data) as image:
        if wanted_px:
            image.draft("RGB", wanted_px)
        image.load()
        if _looks_filled(image):
            _refuse_filled(data, image)
        return to_grey_or_rgb(image, config.background)


def to_rgb(image: Image.Image) -> Image.Image:
    """A picture under the label RGBX as mode RGB; copies, so for small ones."""
    return Image.frombytes("RGB", image.size, image.tobytes(), "raw", "RGBX")


def _read_header(data: bytes) -> Header | None:
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:  # damaged, or a mere warning: Pillow's decision
        return None
    return Header((width, height), 1, colours in _THREE_COLOURS)


def _opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data), formats=["JPEG"])


def _decode_rgbx(
    data: bytes, size: tuple[int, int], wanted_px: tuple[int, int] | None
) -> Image.Image | None:
    scale = _reduction(size, wanted_px) if wanted_px else 1
    width, height = (-(-side // scale) for side in size)
    # In a buffer of the header's size, a second header in the file cannot ask for more memory.
    pixels = np.empty((height, width, 4), np.uint8)
    try:
        decoded = simplejpeg.decode_jpeg(
            data, "RGBX", min_width=width, min_height=height, buffer=pixels
        )
    except ValueError:  # damaged, or a mere warning: Pillow's decision
        return None
    if decoded.shape != pixels.shape:
        return None
    return Image.frombuffer(RGBX, (width, height), pixels, "raw", RGBX, 0, 1)


def _reduction(size: tuple[int, int], wanted_px: tuple[int, int]) -> int:
    """The one that Pillow's draft() takes."""
    scale = min(size[0] // wanted_px[0], size[1] // wanted_px[1])
    return next((s for s in (8, 4, 2) if scale >= s), 1)


def _looks_filled(image: Image.Image) -> bool:
    last = image.getpixel((image.width - 1, image.height - 1))
    levels = last if isinstance(last, tuple) else (last,)
    return all(level in _FILL_LEVELS for level in levels)


def _refuse_filled(data: bytes, image: Image.Image) -> None:
    """Raise CorruptImage where the picture's data ended early and libjpeg filled the rest.

    libjpeg only warns, and Pillow drops the warning. So the file is decoded again with more data
    before its end marker: a complete picture ignores that, an incomplete one changes.
    """
    end = formats.jpeg_end(data)
    longer = data[:end] + _MORE_DATA + data[end:]
    with _opened(longer) as again:
        again.draft(image.mode, image.size)
        again.load()
        if again.tobytes() != image.tobytes():
            raise CorruptImage("the JPEG's image data ends early")
