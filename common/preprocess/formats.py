"""Which image format some bytes claim to be, and whether the container around them is whole.

Pillow looks at a file lazily and checks less than it could; here the format is told from the first
bytes, so that a damaged file of an accepted format is CORRUPT_IMAGE and never UNSUPPORTED_FORMAT,
and what Pillow lets through (a PNG's image checksums, a JPEG without its end) is refused.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from common.errors import CorruptImage

# Sizes of the BMP headers that exist: OS/2, OS/2 v2 short and long, Windows 3 to 5.
_BMP_HEADER_SIZES = (12, 16, 40, 52, 56, 64, 108, 124)
_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_JPEG_END = b"\xff\xd9"
_EXIF = b"Exif\0\0"
_SOS, _SOI_EOI_RST_TEM = 0xDA, {0x01, *range(0xD0, 0xDA)}
# APP0 (JFIF) and APP14 (Adobe) say how the colours are coded; APP1 may hold the orientation.
_JPEG_METADATA = {*range(0xE1, 0xEE), 0xEF, 0xFE}
_JPEG_EXIF = 0xE1


def sniff(data: bytes) -> str | None:
    """Pillow's name of the format that ``data`` starts like, or None.

    Base64 text is never mistaken for a file: each test needs a byte that base64 does not have, but
    for GIF's, whose six letters decode to the start of no image.
    """
    if data.startswith(b"\xff\xd8"):
        return "JPEG"
    if data.startswith(_PNG_MAGIC):
        return "PNG"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if data.startswith(_TIFF_MAGIC):
        return "TIFF"
    if data.startswith(b"BM") and len(data) >= 18:
        return "BMP" if struct.unpack_from("<I", data, 14)[0] in _BMP_HEADER_SIZES else None
    return None


def check_container(data: bytes, format_name: str) -> None:
    """Raise CorruptImage where the file is damaged in a way that Pillow does not notice."""
    if format_name == "PNG":
        for kind, start, end in _png_chunks(data):
            critical = not kind[0] & 0x20
            if critical and zlib.crc32(memoryview(data)[start + 4 : end - 4]) != _u32(
                data, end - 4
            ):
                raise CorruptImage("a PNG chunk fails its checksum")
    elif format_name == "JPEG" and not _is_ended(data):
        raise CorruptImage("the JPEG ends before its end marker")


def without_metadata(data: bytes, format_name: str) -> Iterator[bytes]:
    """The same picture with less around it: first all but the orientation, then that too.

    Damaged metadata must not fail a sound picture; empty for formats that Pillow reads leniently.
    """
    if format_name == "PNG":
        for kept in (b"tRNS", b"eXIf"), (b"tRNS",):
            chunks = _png_chunks(data)
            yield _PNG_MAGIC + b"".join(
                data[start:end] for kind, start, end in chunks if not kind[0] & 0x20 or kind in kept
            )
    elif format_name == "JPEG":
        for dropped in _JPEG_METADATA - {_JPEG_EXIF}, _JPEG_METADATA:
            scan = _jpeg_scan(data)
            segments = _jpeg_segments(data)
            yield (
                data[:2]
                + b"".join(data[start:end] for kind, start, end in segments if kind not in dropped)
                + data[scan:]
            )


def jpeg_has_exif(data: bytes) -> bool:
    """Whether anything before the first scan may be EXIF."""
    return data.find(_EXIF, 0, _jpeg_scan(data)) >= 0


def jpeg_end(data: bytes) -> int:
    """Position of the end marker that closes the first picture's scans; -1 without one."""
    return data.find(_JPEG_END, _jpeg_scan(data))


def _is_ended(data: bytes) -> bool:
    scan = _jpeg_scan(data)
    # Nearly every file ends with the marker; looking for the first one costs as much as base64.
    closes = data.endswith(_JPEG_END) and scan <= len(data) - len(_JPEG_END)
    return closes or data.find(_JPEG_END, scan) >= 0


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    position = len(_PNG_MAGIC)
    kind = b""
    while kind != b"IEND":
        if position + 12 > len(data):
            raise CorruptImage("the PNG ends before its end chunk")
        end = position + 12 + _u32(data, position)
        if end > len(data):
            raise CorruptImage("a PNG chunk is cut")
        kind = data[position + 4 : position + 8]
        yield kind, position, end
        position = end


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, start, end) of each segment up to the first scan."""
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            position += 1
            continue
        marker = data[position + 1]
        if marker == _SOS:
            return
        if marker in (0xFF, 0x00) or marker in _SOI_EOI_RST_TEM:
            position += 1
            continue
        end = position + 2 + struct.unpack_from(">H", data, position + 2)[0]
        yield marker, position, min(end, len(data))
        position = end


def _jpeg_scan(data: bytes) -> int:
    end = 2
    for _, _, end in _jpeg_segments(data):
        pass
    return end


def _u32(data: bytes, position: int) -> int:
    return int(struct.unpack_from(">I", data, position)[0])
