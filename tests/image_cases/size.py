"""Sizes: bombs, thin pictures, tiny ones, large downscales."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

from image_cases.case import Case, encoded, scene
from image_cases.colour import png_chunk

_TOO_LARGE = ("IMAGE_TOO_LARGE",)


def cases() -> Iterator[Case]:
    yield from _bombs()
    yield from _thin()
    yield from _tiny()
    yield from _downscales()


def png_header_only(width: int, height: int, depth: int = 8, colour: int = 2) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(b""))
    return b"\x89PNG\r\n\x1a\n" + body + png_chunk(b"IEND", b"")


def _bombs() -> Iterator[Case]:
    kind = "G-27 decompression bomb"
    yield Case(kind, "PNG 30000x30000", png_header_only(30_000, 30_000), codes=_TOO_LARGE)
    yield Case(kind, "PNG 2147483647x1", png_header_only(2**31 - 1, 1), codes=_TOO_LARGE)
    gif = bytearray(encoded(scene(), "GIF"))
    struct.pack_into("<HH", gif, 6, 65_535, 65_535)
    yield Case(kind, "GIF screen 65535x65535", bytes(gif), codes=_TOO_LARGE)
    bmp = bytearray(encoded(scene(), "BMP"))
    struct.pack_into("<ii", bmp, 18, 40_000, 40_000)
    yield Case(kind, "BMP 40000x40000", bytes(bmp), codes=_TOO_LARGE)
    jpeg = bytearray(encoded(scene(), "JPEG"))
    struct.pack_into(">HH", jpeg, jpeg.index(b"\xff\xc0") + 5, 65_000, 65_000)
    yield Case(kind, "JPEG 65000x65000", bytes(jpeg), codes=_TOO_LARGE)
    tiff = encoded(scene(), "TIFF")
    large = tiff.replace(
        struct.pack("<HHII", 256, 4, 1, 120), struct.pack("<HHII", 256, 4, 1, 99_999)
    )
    large = large.replace(
        struct.pack("<HHII", 257, 4, 1, 80), struct.pack("<HHII", 257, 4, 1, 99_999)
    )
    yield Case(kind, "TIFF 99999x99999", large, codes=_TOO_LARGE)
    webp = bytearray(encoded(scene(), "WEBP", lossless=True, xmp=b"<x/>"))
    assert webp[12:16] == b"VP8X"
    webp[24:30] = (16_383).to_bytes(3, "little") * 2
    yield Case(kind, "WEBP 16384x16384", bytes(webp), codes=("IMAGE_TOO_LARGE", "CORRUPT_IMAGE"))


def _thin() -> Iterator[Case]:
    rng = np.random.default_rng(3)
    for width, height in ((5000, 1), (1, 5000), (5000, 2), (3, 4001), (65_500, 1)):
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        image = Image.fromarray(pixels)
        # The whole long side is never resized here, nor in the reference: only the kept window is.
        yield Case("G-28 thin picture", f"{width}x{height}", encoded(image, "PNG"), image)


def _tiny() -> Iterator[Case]:
    dot = Image.new("RGB", (1, 1), (10, 200, 30))
    for format_name, options in (("PNG", {}), ("BMP", {}), ("WEBP", {"lossless": True})):
        yield Case(
            "G-29 small picture", f"1x1 {format_name}", encoded(dot, format_name, **options), dot
        )
    for width, height in ((2, 3), (100, 50), (223, 224), (224, 224), (232, 232), (233, 231)):
        image = scene(width, height) if width > 10 else scene(60, 60).resize((width, height))
        yield Case("G-29 small picture", f"{width}x{height}", encoded(image, "PNG"), image)


def _downscales() -> Iterator[Case]:
    rng = np.random.default_rng(5)
    noise = Image.fromarray(rng.integers(0, 256, (1200, 1800, 3), np.uint8))
    yield Case(
        "G-30 antialiasing",
        "noise 1800x1200",
        encoded(noise, "PNG", compress_level=1),
        noise,
        max_levels=1,
    )
    for width, height in (
        (640, 427),
        (427, 640),
        (1920, 1080),
        (501, 377),
        (375, 500),
        (333, 1000),
    ):
        image = scene(width, height)
        yield Case("G-31 truncated long side", f"{width}x{height}", encoded(image, "PNG"), image)
