"""What people name on a command line → pictures: files, folders, patterns, stdin, web addresses."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from client.download import OnProgress, fetch
from client.errors import SourceError

# What a folder is searched for; a file named in full is sent whatever it is called.
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
# The largest thing worth sending: Triton's default limit of one HTTP request is 64 MiB.
MAX_SOURCE_BYTES = 60 << 20
STDIN = "-"


@dataclass(frozen=True)
class Source:
    """One picture to be: ``read`` gives its bytes, or raises SourceError with the cause."""

    name: str
    read: Callable[[], bytes]


def expand(inputs: Sequence[str], on_progress: OnProgress = lambda *_: None) -> Iterator[Source]:
    """The pictures behind the inputs, in order; folders are searched, nothing is opened yet.

    ``on_progress`` is told (name, bytes so far, bytes in all or None) while a download runs.
    An input that yields nothing is one source whose ``read`` says why.
    """
    for text in inputs:
        if text == STDIN:
            yield Source(STDIN, _read_stdin)
        elif text.lower().startswith(("http://", "https://")):
            yield Source(text, _downloader(text, on_progress))
        elif os.path.isdir(text):
            yield from _folder(text)
        elif os.path.lexists(text) or not glob.has_magic(text):
            yield _file(text)
        else:
            yield from _pattern(text)


def _file(path: str) -> Source:
    def read() -> bytes:
        try:
            with open(path, "rb") as stream:
                data = stream.read(MAX_SOURCE_BYTES + 1)
        except OSError as error:
            raise SourceError(error.strerror or str(error)) from None
        return _bounded(data)

    return Source(path, read)


def _folder(path: str) -> Iterator[Source]:
    found = False
    for folder, subfolders, names in os.walk(path):
        subfolders.sort()
        for name in sorted(names):
            if Path(name).suffix.lower() in IMAGE_SUFFIXES:
                found = True
                yield _file(os.path.join(folder, name))
    if not found:
        yield _nothing(path, f"no picture in this folder ({' '.join(sorted(IMAGE_SUFFIXES))})")


def _pattern(pattern: str) -> Iterator[Source]:
    matches = sorted(glob.glob(pattern, recursive=True))
    for match in matches:
        if os.path.isdir(match):
            yield from _folder(match)
        else:
            yield _file(match)
    if not matches:
        yield _nothing(pattern, "no file matches this pattern")


def _nothing(name: str, cause: str) -> Source:
    def read() -> bytes:
        raise SourceError(cause)

    return Source(name, read)


def _downloader(url: str, on_progress: OnProgress) -> Callable[[], bytes]:
    return lambda: fetch(url, MAX_SOURCE_BYTES, on_progress)


def _read_stdin() -> bytes:
    return _bounded(sys.stdin.buffer.read(MAX_SOURCE_BYTES + 1))


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_SOURCE_BYTES:
        raise SourceError(f"larger than {MAX_SOURCE_BYTES >> 20} MiB")
    return data
