"""Pixel types: CMYK, grey, 16-bit, palette, alpha, profiles, channel order."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageCms

from image_cases.case import Case, decoded, encoded, scene

WHITE = (255, 255, 255)
_UNSUPPORTED = ("UNSUPPORTED_FORMAT",)


def cases() -> Iterator[Case]:
    yield from _cmyk()
    yield from _sixteen_bit()
    yield from _palette()
    yield from _alpha()
    yield from _grey()
    yield from _profiles()
    yield from _without_fixed_range()
    yield Case(
        "G-13 channel order", "flat red PNG", encoded(_flat(255, 0, 0), "PNG"), _flat(255, 0, 0)
    )


def _flat(*rgb: int) -> Image.Image:
    return Image.new("RGB", (64, 48), rgb)


def _cmyk() -> Iterator[Case]:
    smooth = Image.fromarray(np.asarray(scene(300, 200).resize((30, 20)).resize((300, 200))))
    data = encoded(smooth.convert("CMYK"), "JPEG", quality=95, subsampling=0)
    yield Case("G-04 CMYK", "JPEG with Adobe marker", data, smooth, max_levels=40, mean_levels=3)
    data = encoded(smooth.convert("CMYK"), "TIFF")
    yield Case("G-04 CMYK", "TIFF", data, smooth, max_levels=2, mean_levels=0.5)


def _sixteen_bit() -> Iterator[Case]:
    ramp = np.add.outer(np.arange(200), np.arange(0, 300)).astype(np.uint16) % 256
    eight = Image.fromarray(ramp.astype(np.uint8)).convert("RGB")
    wide = (ramp * 257).astype(np.uint16)
    for format_name in ("PNG", "TIFF"):
        yield Case(
            "G-05 16-bit grey", format_name, encoded(Image.fromarray(wide), format_name), eight
        )
    big_endian = Image.frombytes("I;16B", (300, 200), wide.astype(">u2").tobytes())
    yield Case("G-05 16-bit grey", "big-endian TIFF", encoded(big_endian, "TIFF"), eight)
    yield Case("G-05 16-bit grey", "16-bit RGB PNG", _png(np.dstack([wide] * 3), 2), eight)
    clear = wide.copy()
    clear[:60] = 12345
    shown = np.dstack([ramp.astype(np.uint8)] * 3)
    shown[clear == 12345] = WHITE
    data = _png(clear, 0, trns=struct.pack(">H", 12345))
    yield Case("G-05 16-bit grey", "with a transparent level", data, Image.fromarray(shown))
    grey_alpha = np.dstack([wide, np.full_like(wide, 65535)])
    yield Case("G-05 16-bit grey", "16-bit grey with alpha", _png(grey_alpha, 4), eight)


def _png(pixels: np.ndarray, colour_type: int, trns: bytes = b"") -> bytes:
    """A 16-bit PNG; Pillow cannot write most of them."""
    height, width = pixels.shape[:2]
    rows = pixels.astype(">u2").reshape(height, -1)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0))]
    chunks += [(b"tRNS", trns)] if trns else []
    chunks += [(b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, body) for kind, body in chunks)


def png_chunk(kind: bytes, body: bytes) -> bytes:
    crc = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)


def _palette() -> Iterator[Case]:
    indices = np.zeros((80, 120), np.uint8)
    indices[20:60, 30:90] = 1
    image = Image.fromarray(indices, "P")
    image.putpalette([255, 0, 255, 20, 90, 160])
    shown = np.full((80, 120, 3), 255, np.uint8)
    shown[20:60, 30:90] = (20, 90, 160)
    for format_name in ("PNG", "GIF"):
        data = encoded(image, format_name, transparency=0)
        yield Case("G-06 transparent palette index", format_name, data, Image.fromarray(shown))
    data = encoded(image, "PNG", transparency=bytes([0, 255]))
    yield Case("G-06 transparent palette index", "PNG alpha table", data, Image.fromarray(shown))
    data = encoded(scene().quantize(64), "PNG")
    yield Case("G-06 transparent palette index", "palette without", data, decoded(data))


def _alpha() -> Iterator[Case]:
    y, x = np.mgrid[0:80, 0:120]
    inside = (x - 60) ** 2 + (y - 40) ** 2 < 30**2
    colours = np.asarray(scene())
    shown = colours.copy()
    shown[~inside] = WHITE
    for name, hidden in (("red", (255, 0, 0)), ("green", (0, 255, 0))):
        rgba = np.dstack([colours, np.where(inside, 255, 0).astype(np.uint8)])
        rgba[~inside, :3] = hidden
        for format_name, options in (
            ("PNG", {}),
            ("WEBP", {"lossless": True, "exact": True}),
            ("TIFF", {}),
        ):
            data = encoded(Image.fromarray(rgba), format_name, **options)
            yield Case("G-07 hidden colours", f"{format_name} {name}", data, Image.fromarray(shown))
    half = np.dstack([colours, np.full((80, 120), 128, np.uint8)])
    blended = np.rint((colours * 128.0 + 255 * 127.0) / 255).astype(np.uint8)
    yield Case(
        "G-07 hidden colours",
        "half transparent",
        encoded(Image.fromarray(half), "PNG"),
        Image.fromarray(blended),
    )
    opaque = np.dstack([colours, np.full((80, 120), 255, np.uint8)])
    yield Case(
        "G-07 hidden colours",
        "opaque alpha",
        encoded(Image.fromarray(opaque), "PNG"),
        Image.fromarray(colours),
    )
    grey = np.asarray(scene().convert("L"))
    shown_grey = np.where(inside, grey, 255).astype(np.uint8)
    la = Image.fromarray(np.dstack([grey, np.where(inside, 255, 0).astype(np.uint8)]), "LA")
    for format_name in ("PNG", "TIFF"):
        yield Case(
            "G-08 grey with alpha",
            format_name,
            encoded(la, format_name),
            Image.fromarray(shown_grey).convert("RGB"),
        )
    data = encoded(Image.fromarray(grey), "PNG", transparency=int(grey[0, 0]))
    keyed = np.where(grey == grey[0, 0], 255, grey).astype(np.uint8)
    yield Case(
        "G-08 grey with alpha", "transparent level", data, Image.fromarray(keyed).convert("RGB")
    )


def _grey() -> Iterator[Case]:
    grey = scene().convert("L")
    for format_name, options in (
        ("JPEG", {"quality": 95}),
        ("PNG", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("GIF", {}),
    ):
        data = encoded(grey, format_name, **options)
        yield Case("G-09 grey", format_name, data, decoded(data))
    bits = grey.point(lambda level: 255 if level > 120 else 0).convert("1")
    for format_name in ("PNG", "BMP", "TIFF"):
        yield Case(
            "G-09 grey", f"1-bit {format_name}", encoded(bits, format_name), bits.convert("RGB")
        )
    white_is_zero = encoded(bits, "TIFF", compression="group4")
    yield Case("G-09 grey", "fax TIFF", white_is_zero, bits.convert("RGB"))


def _profiles() -> Iterator[Case]:
    plain = encoded(scene(), "PNG")
    for name, body in (
        ("unknown method", b"icc\0\x01" + b"junk" * 8),
        ("junk stream", b"icc\0\0" + b"junk" * 8),
        ("no name", b"\0" * 4),
    ):
        data = plain[:33] + png_chunk(b"iCCP", body) + plain[33:]
        yield Case("G-10 damaged ICC profile", name, data, scene(), ("CORRUPT_IMAGE",))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = encoded(scene(), "JPEG", quality=95, icc_profile=profile)
    yield Case("G-11 ICC profile", "JPEG, not applied", data, decoded(data))


def _without_fixed_range() -> Iterator[Case]:
    levels = np.linspace(0, 1, 80 * 120).reshape(80, 120)
    for name, array in (
        ("float TIFF", levels.astype(np.float32)),
        ("32-bit TIFF", (levels * 2**30).astype(np.int32)),
    ):
        data = encoded(Image.fromarray(array), "TIFF")
        yield Case("G-12 no fixed range", name, data, codes=_UNSUPPORTED)
    lab = ImageCms.profileToProfile(
        scene(), ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
    )
    yield Case("G-12 no fixed range", "Lab TIFF", encoded(lab, "TIFF"), codes=_UNSUPPORTED)
