"""Containers and damage: frames, coding variants, cuts, foreign files."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

from image_cases.case import Case, decoded, encoded, scene
from image_cases.colour import png_chunk

_CORRUPT = ("CORRUPT_IMAGE",)
_UNSUPPORTED = ("UNSUPPORTED_FORMAT",)
FORMATS: dict[str, dict[str, object]] = {
    "JPEG": {"quality": 90},
    "PNG": {},
    "WEBP": {"quality": 90},
    "GIF": {},
    "BMP": {},
    "TIFF": {"compression": "tiff_lzw"},
}


def cases() -> Iterator[Case]:
    yield from _jpeg_variants()
    yield from _cut()
    yield from _ends_early()
    yield from _foreign()
    yield from _frames()
    yield from _patched_jpeg()
    yield from _bad_checksums()
    yield from _metadata()


def _frame(*rgb: int) -> Image.Image:
    return Image.new("RGB", (96, 64), rgb)


def _jpeg_variants() -> Iterator[Case]:
    picture = scene(320, 200)
    data = encoded(picture, "MPO", save_all=True, append_images=[_frame(9, 9, 9)], quality=95)
    yield Case("G-14 MPO", "first of two pictures", data, decoded(data))
    for name, options in (
        ("progressive", {"progressive": True}),
        ("restart markers", {"restart_marker_rows": 1}),
        ("4:1:1", {"subsampling": "4:1:1"}),
        ("4:2:2", {"subsampling": 1}),
        ("optimised tables", {"optimize": True}),
        ("kept as RGB", {"keep_rgb": True}),
        ("comment", {"comment": b"x" * 60_000}),
    ):
        data = encoded(picture, "JPEG", quality=92, **options)
        yield Case("G-15 JPEG coding", name, data, decoded(data))
    data = encoded(picture, "JPEG", quality=92)
    yield Case("G-15 JPEG coding", "bytes after the end", data + b"\0" * 5000, decoded(data))
    yield Case("G-15 JPEG coding", "a second file after the end", data + data, decoded(data))
    grey = Image.new("RGB", (320, 200), (128, 128, 128))
    data = encoded(grey, "JPEG", quality=92)
    yield Case("G-15 JPEG coding", "a picture that is mid-grey", data, decoded(data))


def _cut() -> Iterator[Case]:
    picture = scene(320, 200)
    for format_name, options in FORMATS.items():
        data = encoded(picture, format_name, **options)
        kind = "G-16 half a JPEG" if format_name == "JPEG" else "G-18 cut file"
        for share in (0.5, 0.6, 0.95):
            cut = data[: int(len(data) * share)]
            yield Case(kind, f"{format_name} {share:.0%}", cut, codes=_CORRUPT)
        yield Case(kind, f"{format_name} first 20 bytes", data[:20], codes=_CORRUPT)
    for name, options in (("uncompressed", {}), ("deflate", {"compression": "tiff_adobe_deflate"})):
        data = encoded(picture, "TIFF", **options)
        yield Case("G-18 cut file", f"TIFF {name}", data[: len(data) * 6 // 10], codes=_CORRUPT)
    lossless = encoded(picture, "WEBP", lossless=True)
    yield Case("G-18 cut file", "WEBP lossless", lossless[: len(lossless) // 2], codes=_CORRUPT)


def _ends_early() -> Iterator[Case]:
    """Half the image data, but a proper end: what a decoder fills in must not be classified."""
    picture = scene(320, 200)
    for name, options in (
        ("4:2:0", {}),
        ("4:4:4", {"subsampling": 0}),
        ("restart markers", {"restart_marker_rows": 1}),
    ):
        data = encoded(picture, "JPEG", quality=90, **options)
        for share in (0.5, 0.9):
            element = data[: int(len(data) * share)] + b"\xff\xd9"
            yield Case(
                "G-16 half a JPEG", f"{name} {share:.0%} and an end", element, codes=_CORRUPT
            )
    grey = encoded(picture.convert("L"), "JPEG", quality=90)
    yield Case(
        "G-16 half a JPEG", "grey and an end", grey[: len(grey) // 2] + b"\xff\xd9", codes=_CORRUPT
    )
    cmyk = encoded(picture.convert("CMYK"), "JPEG", quality=90)
    yield Case(
        "G-16 half a JPEG", "CMYK and an end", cmyk[: len(cmyk) // 2] + b"\xff\xd9", codes=_CORRUPT
    )
    data = encoded(picture, "JPEG", quality=90)
    half = data[: len(data) // 2]
    yield Case("G-16 half a JPEG", "the rest is zeros", half + bytes(len(half)), codes=_CORRUPT)
    yield Case("G-17 left-over pixels", "after a red picture", half, codes=_CORRUPT)
    png = encoded(picture, "PNG")
    start = png.index(b"IDAT") - 4
    (length,) = struct.unpack_from(">I", png, start)
    body = png[start + 8 : start + 8 + length // 2]
    element = png[:start] + png_chunk(b"IDAT", body) + png_chunk(b"IEND", b"")
    yield Case("G-18 cut file", "PNG with half its image data", element, codes=_CORRUPT)
    gif = encoded(picture, "GIF")
    yield Case("G-18 cut file", "GIF and an end", gif[: len(gif) // 2] + b"\0;", codes=_CORRUPT)


def _foreign() -> Iterator[Case]:
    for name, data in (
        ("access denied page", b"<!DOCTYPE html><html><body>403 Forbidden</body></html>"),
        ("JSON error", b'{"error": "not found", "status": 404}'),
        ("PDF", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"),
        ("ZIP", b"PK\x03\x04" + bytes(60)),
        ("MP4", b"\0\0\0\x18ftypmp42" + bytes(60)),
        ("random bytes", np.random.default_rng(1).bytes(500)),
        ("plain text", b"hello world, this is no picture"),
    ):
        yield Case("G-20 no picture", name, base64.b64encode(data), codes=_UNSUPPORTED)
    for name, data in (
        (
            "SVG",
            b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        ),
        ("HEIC", b"\0\0\0\x18ftypheic" + bytes(64)),
        ("AVIF", b"\0\0\0\x18ftypavif" + bytes(64)),
        ("ICO", encoded(scene(32, 32), "ICO")),
        ("PPM", encoded(scene(), "PPM")),
        ("JPEG 2000", encoded(scene(), "JPEG2000")),
        ("EPS", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n"),
        ("PCX", encoded(scene(), "PCX")),
        ("TGA", encoded(scene(), "TGA")),
    ):
        yield Case("G-21 other formats", name, base64.b64encode(data), codes=_UNSUPPORTED)
    yield Case(
        "G-21 other formats", "raw HEIC", b"\0\0\0\x18ftypheic" + bytes(64), codes=_UNSUPPORTED
    )
    yield Case("G-21 other formats", "raw SVG", b"<svg xmlns='x'></svg>", codes=_UNSUPPORTED)


def _frames() -> Iterator[Case]:
    red, others = _frame(255, 0, 0), [_frame(0, 255, 0), _frame(0, 0, 255)]
    for format_name, options in (
        ("GIF", {"duration": 40}),
        ("WEBP", {"lossless": True, "duration": 40}),
        ("PNG", {}),
    ):
        data = encoded(red, format_name, save_all=True, append_images=others, **options)
        yield Case("G-22 animation", format_name, data, red)
    data = encoded(red, "TIFF", save_all=True, append_images=others)
    yield Case("G-25 pages", "3-page TIFF", data, red)
    bmp = encoded(scene(), "BMP")
    yield Case("G-25 pages", "BMP", bmp, scene())
    height = struct.unpack_from("<i", bmp, 22)[0]
    top_down = bytearray(bmp)
    struct.pack_into("<i", top_down, 22, -height)
    flipped = scene().transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    yield Case("G-25 pages", "top-down BMP", bytes(top_down), flipped)


def _patched_jpeg() -> Iterator[Case]:
    data = encoded(scene(), "JPEG", quality=90)
    frame = data.index(b"\xff\xc0")
    either = ("CORRUPT_IMAGE", "UNSUPPORTED_FORMAT")
    for name, offset, value in (
        ("lossless", 1, 0xC3),
        ("12-bit", 4, 12),
        ("no components", 9, 0),
    ):
        patched = bytearray(data)
        patched[frame + offset] = value
        yield Case("G-23 rare JPEG", name, bytes(patched), codes=either)
    no_size = bytearray(data)
    no_size[frame + 5 : frame + 9] = bytes(4)
    yield Case("G-23 rare JPEG", "zero by zero", bytes(no_size), codes=_CORRUPT)


def _bad_checksums() -> Iterator[Case]:
    data = bytearray(encoded(scene(), "PNG"))
    position = data.index(b"IDAT")
    (length,) = struct.unpack_from(">I", data, position - 4)
    data[position + 4 + length] ^= 0xFF
    yield Case("G-26 bad checksum", "image data", bytes(data), codes=_CORRUPT)
    header = bytearray(encoded(scene(), "PNG"))
    header[29] ^= 0xFF
    yield Case("G-26 bad checksum", "header", bytes(header), codes=_CORRUPT)
    plain = encoded(scene(), "PNG")
    text = bytearray(png_chunk(b"tEXt", b"Comment\0hello"))
    text[-1] ^= 0xFF
    element = plain[:33] + bytes(text) + plain[33:]
    yield Case("G-26 bad checksum", "a comment only", element, scene(), _CORRUPT)


def _metadata() -> Iterator[Case]:
    """Metadata of any size must neither fail a sound picture nor cost much."""
    plain = encoded(scene(), "PNG")
    bomb = png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(80_000_000), 9))
    yield Case("G-10 huge metadata", "PNG text of 80 MB", plain[:33] + bomb + plain[33:], scene())
    jpeg = encoded(scene(), "JPEG", quality=95)
    segment = b"\xff\xed" + struct.pack(">H", 65535) + b"Photoshop 3.0\0" + b"8BIM\xff\xff" * 10_919
    element = jpeg[:2] + segment[:65537] + jpeg[2:]
    yield Case("G-10 huge metadata", "JPEG Photoshop junk", element, decoded(jpeg))
