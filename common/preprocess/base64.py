"""One wire element → the bytes of an image file.

An element is either the raw file or base64 text of it (also a data URL, URL-safe signs, missing
padding, ASCII white space). Nothing is dropped silently: two different texts never mean one image
by accident.
"""

from __future__ import annotations

import binascii
import re

import pybase64

from common.errors import EmptyInput, ImageTooLarge, InvalidBase64, UnsupportedFormat
from common.preprocess.formats import sniff

_WHITE_SPACE = b" \t\r\n\v\f"
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_DATA_URL = re.compile(rb"data:[^,]{0,256},", re.IGNORECASE)
# Anything below is no text sign; tab, line feed, form feed, vertical tab and return are.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
# How much of a refused element is looked at to name what it is.
_LOOK_BYTES = 64


def file_bytes(element: bytes, max_bytes: int) -> bytes:
    """The image file in one element.

    Raises EmptyInput, InvalidBase64, ImageTooLarge (more than ``max_bytes`` after decoding), or
    UnsupportedFormat for bytes that are neither base64 nor an image.
    """
    if not element:
        raise EmptyInput("the element is empty")
    if sniff(element) is not None:
        return _limited(element, max_bytes)
    text = _payload(element)
    # Every four signs carry three bytes; refusing here spares decoding what is refused anyway.
    if len(text) // 4 * 3 > max_bytes and len(_compact(text)) // 4 * 3 > max_bytes + 2:
        raise _too_large(max_bytes)
    data = _decode(text, element)
    if not data:
        raise EmptyInput("the element holds no bytes once decoded")
    return _limited(data, max_bytes)


def _payload(element: bytes) -> bytes:
    start = element[:_LOOK_BYTES].lstrip(_WHITE_SPACE)
    if start[:5].lower() != b"data:":
        return element
    stripped = element.lstrip(_WHITE_SPACE)
    header = _DATA_URL.match(stripped)
    if header is None or not header.group()[:-1].rstrip().lower().endswith(b";base64"):
        raise InvalidBase64("the data URL is not base64")
    return stripped[header.end() :]


def _compact(text: bytes) -> bytes:
    return text.translate(_TO_STANDARD, delete=_WHITE_SPACE)


def _decode(text: bytes, element: bytes) -> bytes:
    try:
        return pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    compact = _compact(text)
    if not compact:
        raise EmptyInput("the element is only white space")
    bare = compact.rstrip(b"=")
    padding = len(compact) - len(bare)
    needed = -len(bare) % 4
    if needed == 3 or padding not in range(needed + 1):
        raise _refusal(element, "neither an image file nor base64: impossible length or padding")
    try:
        return pybase64.b64decode(bare + b"=" * needed, validate=True)
    except (binascii.Error, ValueError):
        raise _refusal(element, "neither an image file nor base64: it holds other signs") from None


def _refusal(element: bytes, message: str) -> InvalidBase64 | UnsupportedFormat:
    """Name what was sent: markup and binary data were never meant as base64."""
    look = element[:_LOOK_BYTES]
    if look.lstrip(b"\xef\xbb\xbf" + _WHITE_SPACE).startswith(b"<"):
        return UnsupportedFormat("the element is markup, not an image")
    if _CONTROL.search(look):
        return UnsupportedFormat("the element is binary data of no accepted image format")
    return InvalidBase64(message)


def _limited(data: bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return data


def _too_large(max_bytes: int) -> ImageTooLarge:
    return ImageTooLarge(f"the image file is larger than {max_bytes} bytes")
