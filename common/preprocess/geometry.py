"""Sizes and windows of the preprocessing recipe: arithmetic only, no pixels.

All of it works on the size in the file's header, never on a reduced decode, so that the window is
the same whatever the decoder did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from PIL.Image import Transpose

from common.parameters import PreprocessConfig

Box = tuple[float, float, float, float]

# EXIF orientation → how to turn the stored picture upright (EXIF 2.32, tag 0x0112).
TURNS: dict[int, Transpose] = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
_SWAPS_SIDES = (5, 6, 7, 8)


@dataclass(frozen=True)
class Window:
    """What of the picture is kept and where it lands; all in pixels.

    ``box`` is (left, top, right, bottom) in the picture, ``size`` its (width, height) after
    resizing, ``full_size`` what the whole picture would be resized to, and ``offset`` where the
    result lies in the crop_size × crop_size output. ``horizontal_first`` is the order of the
    resize passes that Pillow 13 takes for the whole picture: vertical first only where it makes a
    picture smaller that is more than twice as tall as wide.
    """

    box: Box
    size: tuple[int, int]
    full_size: tuple[int, int]
    offset: tuple[int, int]
    horizontal_first: bool


def window(width: int, height: int, config: PreprocessConfig) -> Window:
    """The window of an upright picture of ``width`` × ``height`` pixels.

    shortest_edge is torchvision's Resize(resize_size) + CenterCrop(crop_size): the long side is
    truncated, the crop offset is int(round((n - crop) / 2)), half to even. letterbox resizes the
    longest edge to resize_size and centres the result, as CenterCrop pads a smaller picture.
    """
    crop = config.crop_size
    if config.resize_mode == "letterbox":
        size = _scaled(width, height, config.resize_size, longest=True)
        offset = ((crop - size[0]) // 2, (crop - size[1]) // 2)
        box = (0.0, 0.0, float(width), float(height))
        return Window(box, size, size, offset, _horizontal_first(width, height, size))
    full = _scaled(width, height, config.resize_size, longest=False)
    left, top = round((full[0] - crop) / 2), round((full[1] - crop) / 2)
    scale_x, scale_y = width / full[0], height / full[1]
    box = (left * scale_x, top * scale_y, (left + crop) * scale_x, (top + crop) * scale_y)
    return Window(box, (crop, crop), full, (0, 0), _horizontal_first(width, height, full))


def stored_window(width: int, height: int, orientation: int, config: PreprocessConfig) -> Window:
    """``window`` for a picture stored as ``width`` × ``height`` that is shown turned.

    Box and sizes are in the stored picture's axes: resizing there and turning the small result
    costs a fraction of turning the whole picture first.
    """
    if orientation not in TURNS:
        return window(width, height, config)
    swaps = orientation in _SWAPS_SIDES
    upright_w, upright_h = (height, width) if swaps else (width, height)
    upright = window(upright_w, upright_h, config)
    left, top, right, bottom = upright.box
    if orientation in (2, 3, 6, 7):
        left, right = upright_w - right, upright_w - left
    if orientation in (3, 4, 7, 8):
        top, bottom = upright_h - bottom, upright_h - top
    box = (left, top, right, bottom)
    if not swaps:
        return replace(upright, box=box)
    return replace(
        upright,
        box=(top, left, bottom, right),
        size=upright.size[::-1],
        full_size=upright.full_size[::-1],
        horizontal_first=not upright.horizontal_first,
    )


def _horizontal_first(width: int, height: int, full_size: tuple[int, int]) -> bool:
    return not (height > 2 * width and full_size[1] < height)


def _scaled(width: int, height: int, edge: int, longest: bool) -> tuple[int, int]:
    """The size whose short (or longest) edge is ``edge``; the other one truncated, at least 1."""
    reference = max(width, height) if longest else min(width, height)
    if width == reference:
        return edge, max(1, int(edge * height / width))
    return max(1, int(edge * width / height)), edge
