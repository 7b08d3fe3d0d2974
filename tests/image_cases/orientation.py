"""EXIF orientation: honoured where it is sound, harmless where it is not."""

from __future__ import annotations

import io
from collections.abc import Iterator

from PIL import Image, ImageOps

from image_cases.case import Case, decoded, encoded, scene

_TAG = 0x0112
_JPEG = {"quality": 95, "subsampling": 0}


def cases() -> Iterator[Case]:
    yield from _every_orientation()
    yield from _invalid_values()
    yield from _damaged_exif()


def _exif(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[_TAG] = value
    return exif


def _every_orientation() -> Iterator[Case]:
    stored = scene()
    for format_name, options in (
        ("JPEG", _JPEG),
        ("PNG", {}),
        ("WEBP", {"lossless": True}),
        ("TIFF", {}),
    ):
        for value in range(1, 9):
            data = encoded(stored, format_name, exif=_exif(value), **options)
            with Image.open(io.BytesIO(data)) as image:
                # A TIFF turns itself upright in Pillow, so nothing is left to do there.
                upright = ImageOps.exif_transpose(image).convert("RGB")
            yield Case("G-01 EXIF orientation", f"{format_name} value {value}", data, upright)


def _invalid_values() -> Iterator[Case]:
    for value in (0, 9, 65535):
        data = encoded(scene(), "JPEG", exif=_exif(value), **_JPEG)
        yield Case("G-02 invalid orientation", f"value {value}", data, decoded(data))


def _damaged_exif() -> Iterator[Case]:
    plain = encoded(scene(), "JPEG", **_JPEG)
    for name, body in (
        ("body of 0xFF", b"Exif\0\0" + b"\xff" * 10),
        ("empty body", b"Exif\0\0"),
        ("cut header", b"Exif\0\0MM\0*"),
        ("offset beyond the end", b"Exif\0\0II*\0\xff\xff\xff\x7f"),
    ):
        segment = b"\xff\xe1" + (len(body) + 2).to_bytes(2, "big") + body
        data = plain[:2] + segment + plain[2:]
        yield Case("G-03 damaged EXIF", name, data, decoded(plain))
