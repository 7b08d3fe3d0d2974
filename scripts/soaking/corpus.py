"""The seeded corpus: pictures of every format and size, and elements that are none."""

from __future__ import annotations

import io
import random
import zlib
from dataclasses import dataclass

import numpy as np
from PIL import Image

# Share of bad images among those that one public service received in a month.
BAD_SHARE = 0.187
_FORMATS: tuple[tuple[str, dict[str, object]], ...] = (
    ("JPEG", {"quality": 85}),
    ("JPEG", {"quality": 70, "progressive": True}),
    ("PNG", {}),
    ("WEBP", {"quality": 70}),
    ("GIF", {}),
    ("BMP", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
)
_SIZES_PX = ((64, 48), (224, 224), (320, 240), (640, 480), (400, 900), (1280, 960))
_LARGEST_PX = (2400, 1800)
_LARGE = 4


@dataclass(frozen=True)
class Element:
    """What is sent for one image, raw; ``code`` is the error it must get, None = a picture."""

    data: bytes
    code: str | None = None


@dataclass(frozen=True)
class Corpus:
    """All elements of one seed."""

    good: tuple[Element, ...]
    bad: tuple[Element, ...]

    def largest(self) -> Corpus:
        """The same with the largest pictures alone."""
        ordered = sorted(self.good, key=lambda element: len(element.data))
        return Corpus(tuple(ordered[-_LARGE:]), self.bad)

    def draw(self, source: random.Random) -> Element:
        """One element, bad with BAD_SHARE."""
        return source.choice(self.bad if source.random() < BAD_SHARE else self.good)


def build(seed: int) -> Corpus:
    """The same elements on every machine, for the same Pillow."""
    draw = np.random.default_rng(seed)
    pictures = [
        _encoded(_picture(draw, size), name, options)
        for size in _SIZES_PX
        for name, options in _FORMATS
    ]
    pictures.append(_encoded(_picture(draw, _LARGEST_PX), "JPEG", {"quality": 90}))
    return Corpus(tuple(Element(picture) for picture in pictures), tuple(_bad(draw)))


def _bad(draw: np.random.Generator) -> list[Element]:
    jpeg = _encoded(_picture(draw, (320, 240)), "JPEG", {"quality": 85})
    png = _encoded(_picture(draw, (320, 240)), "PNG", {})
    return [
        Element(b"", "EMPTY_INPUT"),
        Element(b" \n", "EMPTY_INPUT"),
        Element(b"not/base64!", "INVALID_BASE64"),
        Element(b"<html><body>404 Not Found</body></html>", "UNSUPPORTED_FORMAT"),
        Element(bytes(range(256)) * 2, "UNSUPPORTED_FORMAT"),
        Element(b"PK\x03\x04" + bytes(200), "UNSUPPORTED_FORMAT"),
        Element(jpeg[: len(jpeg) // 2], "CORRUPT_IMAGE"),
        Element(png[: len(png) // 3], "CORRUPT_IMAGE"),
        Element(_huge_png(), "IMAGE_TOO_LARGE"),
    ]


def _picture(draw: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """Coarse patches, enlarged: compressible like a photograph, unlike any other of them."""
    patches = draw.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize(size, Image.Resampling.BICUBIC)


def _encoded(picture: Image.Image, name: str, options: dict[str, object]) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, name, **options)
    return stream.getvalue()


def _huge_png() -> bytes:
    """A whole file whose header claims 40,000 x 40,000 pixels."""
    header = (40_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(9))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data).to_bytes(4, "big")
    return len(data).to_bytes(4, "big") + kind + data + checksum
