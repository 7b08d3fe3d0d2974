"""Wire text: base64 in every spelling that clients send, and what only looks like it."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from image_cases.case import Case, decoded, encoded, scene
from image_cases.containers import FORMATS

_INVALID = ("INVALID_BASE64",)
_EMPTY = ("EMPTY_INPUT",)


def cases() -> Iterator[Case]:
    yield from _accepted()
    yield from _raw_bytes()
    yield from _refused()
    yield from _empty()


def _accepted() -> Iterator[Case]:
    data = encoded(scene(), "PNG")
    text = base64.b64encode(data)
    for name, element in (
        ("image/jpeg", b"data:image/jpeg;base64," + text),
        ("with a charset", b"data:image/png;charset=utf-8;base64," + text),
        ("no media type", b"data:;base64," + text),
        ("capitals", b"DATA:IMAGE/PNG;BASE64," + text),
        ("white space before", b"\r\n data:image/png;base64," + text),
    ):
        yield Case("G-33 data URL", name, element, scene())
    for extra in range(3):
        longer = encoded(scene(), "BMP") + bytes(extra)
        stripped = base64.b64encode(longer).rstrip(b"=")
        yield Case("G-34 missing padding", f"remainder {len(stripped) % 4}", stripped, scene())
    for name, element in (
        ("76 columns LF", base64.encodebytes(data)),
        ("76 columns CRLF", base64.encodebytes(data).replace(b"\n", b"\r\n")),
        ("spaces and tabs", b" \t" + text[:50] + b" \t " + text[50:] + b"\n"),
        ("a line break before the padding", base64.b64encode(data + b"\0").replace(b"=", b"\n=")),
    ):
        yield Case("G-35 white space", name, element, scene())
    urlsafe = base64.urlsafe_b64encode(data)
    assert b"-" in urlsafe and b"_" in urlsafe
    yield Case("G-36 URL-safe alphabet", "padded", urlsafe, scene())
    yield Case("G-36 URL-safe alphabet", "bare", urlsafe.rstrip(b"="), scene())
    jpeg = base64.b64encode(encoded(scene(), "JPEG", quality=95))
    assert jpeg.startswith(b"/9j/")
    shown = decoded(encoded(scene(), "JPEG", quality=95))
    yield Case("G-41 text like a path", "JPEG", jpeg, shown)


def _raw_bytes() -> Iterator[Case]:
    for format_name, options in FORMATS.items():
        data = encoded(scene(), format_name, **options)
        yield Case("G-36 raw bytes", format_name, data, decoded(data))
        yield Case(
            "G-36 raw bytes", f"{format_name} as base64", base64.b64encode(data), decoded(data)
        )
    bmp = encoded(scene(), "BMP") + b"\0\0\0"
    yield Case("G-42 trailing zeros", "BMP", bmp, scene())


def _refused() -> Iterator[Case]:
    text = base64.b64encode(encoded(scene(), "PNG"))
    for name, element in (
        ("!!!! inside", text[:100] + b"!!!!" + text[100:]),
        ("one sign replaced", text[:100] + b"*" + text[101:]),
        ("a percent escape", text[:100] + b"%2B" + text[100:]),
        ("quoted", b'"' + text + b'"'),
        ("a Python literal", b"b'" + text + b"'"),
        ("padding in the middle", text[:100] + b"==" + text[100:]),
        ("a NUL inside", text[:200] + b"\0" + text[200:]),
        ("a URL", b"https://example.com/cat.jpg"),
        ("a path", b"../../etc/passwd.jpg"),
    ):
        yield Case("G-37 stray signs", name, element, codes=_INVALID)
    yield Case("G-33 data URL", "not base64", b"data:image/svg+xml,%3Csvg%3E", codes=_INVALID)
    yield Case("G-33 data URL", "no comma", b"data:image/png;base64" + text, codes=_INVALID)
    for name, element in (
        ("Chinese", "图片".encode()),
        ("full-width letters", "ＡＢＣ".encode()),
        ("an accent inside", text[:100] + "é".encode() + text[100:]),
        ("Latin-1", text[:100] + b"\xe9" + text[100:]),
    ):
        yield Case("G-39 not ASCII", name, element, codes=_INVALID)
    for name, element in (
        ("five signs short", text[:-5]),
        ("half", text[: len(text) // 2]),
        ("one sign left", b"A"),
    ):
        yield Case("G-40 cut text", name, element, codes=("INVALID_BASE64", "CORRUPT_IMAGE"))


def _empty() -> Iterator[Case]:
    yield Case("G-19 nothing", "zero bytes", b"", codes=_EMPTY)
    yield Case("G-38 blank text", "spaces and a line break", b"  \n", codes=_EMPTY)
    yield Case("G-38 blank text", "every white space", b" \t\r\n\x0b\x0c", codes=_EMPTY)
    yield Case("G-38 blank text", "empty data URL", b"data:image/png;base64,", codes=_EMPTY)
