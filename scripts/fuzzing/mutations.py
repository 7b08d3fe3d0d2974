"""Seeded damage: the same seed gives the same elements on every machine."""

from __future__ import annotations

import base64
import io
import random
from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

FORMATS: dict[str, dict[str, object]] = {
    "JPEG": {"quality": 80},
    "PNG": {},
    "WEBP": {"quality": 60},
    "GIF": {},
    "BMP": {},
    "TIFF": {"compression": "tiff_lzw"},
}


def base_files() -> list[bytes]:
    """Small sound files of every accepted format, in several pixel types and codings."""
    y, x = np.mgrid[0:40, 0:56]
    pixels = np.stack([x * 4, y * 6, (x * y) % 256], axis=-1).astype(np.uint8)
    colour = Image.fromarray(pixels)
    exif = Image.Exif()
    exif[0x0112] = 6
    files = []
    for name, options in FORMATS.items():
        files.append(_encoded(colour, name, **options))
        files.append(_encoded(colour.convert("L"), name, **options))
    files += [
        _encoded(colour, "JPEG", progressive=True, exif=exif),
        _encoded(colour.convert("CMYK"), "JPEG"),
        _encoded(colour, "MPO", save_all=True, append_images=[colour]),
        _encoded(colour.convert("RGBA"), "PNG", exif=exif),
        _encoded(colour.quantize(16), "PNG", transparency=0),
        _encoded(Image.fromarray((x * 1000).astype(np.uint16)), "PNG"),
        _encoded(colour, "PNG", save_all=True, append_images=[colour.rotate(90)]),
        _encoded(colour.convert("RGBA"), "WEBP", lossless=True),
        _encoded(colour, "WEBP", save_all=True, append_images=[colour.rotate(90)]),
        _encoded(colour.quantize(8), "GIF", save_all=True, append_images=[colour.quantize(4)]),
        _encoded(colour.convert("1"), "TIFF", compression="group4"),
        _encoded(colour, "TIFF", save_all=True, append_images=[colour]),
    ]
    return files


def elements(seed: int, count: int) -> Iterator[bytes]:
    """``count`` damaged wire elements, raw or as base64."""
    source = random.Random(seed)
    files = base_files()
    for _ in range(count):
        data = source.choice(files)
        for _ in range(source.choice((1, 1, 1, 2, 4))):
            data = source.choice(_DAMAGE)(source, data)
        yield _on_the_wire(source, data)


def parameters(seed: int, count: int) -> Iterator[dict[str, object]]:
    """``count`` sets of request parameters, most of them wrong in some way."""
    source = random.Random(seed)
    keys = ("top_k", "threshold", "lang", "group", "topk", "", "x" * 300)
    values: tuple[object, ...] = (
        *(0, 1, 5, -1, 101, 2**31, True, False, 0.5, -0.5, 1e300, "", "zh", "zh-Hans-CN", "xx"),
        *("\u0000", "../../etc/passwd", "x" * 5000, "图片", "true", "3", "en;q=0.5, *"),
    )
    for _ in range(count):
        yield {source.choice(keys): source.choice(values) for _ in range(source.randint(0, 3))}


def _encoded(image: Image.Image, format_name: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format_name, **options)
    return stream.getvalue()


def _flip(source: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(source.randint(1, 8)):
        if changed:
            changed[source.randrange(len(changed))] = source.randrange(256)
    return bytes(changed)


def _cut(source: random.Random, data: bytes) -> bytes:
    return data[: source.randrange(len(data) + 1)]


def _remove(source: random.Random, data: bytes) -> bytes:
    start = source.randrange(len(data) + 1)
    return data[:start] + data[start + source.randint(1, 64) :]


def _insert(source: random.Random, data: bytes) -> bytes:
    start = source.randrange(len(data) + 1)
    return data[:start] + source.randbytes(source.randint(1, 64)) + data[start:]


def _repeat(source: random.Random, data: bytes) -> bytes:
    start = source.randrange(len(data) + 1)
    piece = data[start : start + source.randint(1, 200)]
    return data[:start] + piece * source.randint(2, 20) + data[start:]


def _large_number(source: random.Random, data: bytes) -> bytes:
    """Sizes, counts and offsets are four bytes somewhere near the front."""
    start = source.randrange(min(len(data), 200) + 1)
    number = source.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 4, b"\0\1\0\0"))
    return data[:start] + number + data[start + 4 :]


_DAMAGE: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_flip, _flip, _flip),
    *(_cut, _remove, _insert, _repeat, _large_number),
)


def _on_the_wire(source: random.Random, data: bytes) -> bytes:
    kind = source.randrange(4)
    if kind == 0:
        return data
    text = base64.b64encode(data)
    if kind == 1:
        return text
    if kind == 2:
        return b"data:image/png;base64," + text
    return _flip(source, text)
