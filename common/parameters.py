"""config.pbtxt parameters and request parameters → frozen dataclasses, checked.

Triton hands configuration over as strings; every reader below says what is allowed, and a key that
nobody asked for is an error, so a typing mistake cannot turn into a silent default.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from common.errors import ConfigurationError

RESIZE_MODES = ("shortest_edge", "letterbox")
IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
FIELD_CASES = ("snake", "camel")
LAYOUTS = ("objects", "columns")


@dataclass(frozen=True)
class PreprocessConfig:
    """The preprocessing recipe; sizes in pixels, mean and std per RGB channel in 0..1 units.

    ``mean`` and ``std`` are None where the output is UINT8: there the graph normalises.
    """

    resize_size: int
    crop_size: int
    resize_mode: str
    jpeg_scale_gap: int
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    formats: tuple[str, ...]
    max_pixels: int
    max_bytes: int
    background: tuple[int, ...]
    threads: int
    max_pending_images: int
    max_pending_bytes: int


@dataclass(frozen=True)
class PostprocessConfig:
    """The business rules; ``label_files`` maps a language tag to a file in the version folder."""

    top_k: int
    max_top_k: int
    threshold: float
    label_files: Mapping[str, str]
    default_language: str
    group_file: str | None
    field_case: str
    layout: str
    decimals: int


def parse_preprocess(parameters: Mapping[str, str], output: Mapping[str, Any]) -> PreprocessConfig:
    """Check the preprocess parameters against PREPROCESSED_IMAGE's data type and dims.

    Raises ConfigurationError with key, value and what is allowed.
    """
    reader = _Reader(parameters)
    resize_size = reader.integer("resize_size", None, 1, 8192)
    crop_size = reader.integer("crop_size", None, 1, 8192)
    resize_mode = reader.choice("resize_mode", "shortest_edge", RESIZE_MODES)
    _check_sizes(resize_mode, resize_size, crop_size)
    mean, std = _normalisation(reader, output, crop_size)
    config = PreprocessConfig(
        resize_size=resize_size,
        crop_size=crop_size,
        resize_mode=resize_mode,
        jpeg_scale_gap=reader.integer("jpeg_scale_gap", 4, 0, 64),
        mean=mean,
        std=std,
        formats=reader.subset("formats", IMAGE_FORMATS),
        max_pixels=reader.integer("max_pixels", 67_108_864, 1, 1 << 30),
        max_bytes=reader.integer("max_bytes", 33_554_432, 1, 1 << 30),
        background=reader.rgb("background", (255, 255, 255)),
        threads=reader.integer("threads", 0, 0, 1024),
        max_pending_images=reader.integer("max_pending_images", 256, 1, 100_000),
        max_pending_bytes=reader.integer("max_pending_bytes", 268_435_456, 1, 1 << 40),
    )
    reader.finish()
    return config


def parse_postprocess(parameters: Mapping[str, str]) -> PostprocessConfig:
    """Check the postprocess parameters; files are read later, by common.postprocess.labels."""
    reader = _Reader(parameters)
    max_top_k = reader.integer("max_top_k", 100, 1, 100_000)
    label_files = reader.label_files("label_files")
    config = PostprocessConfig(
        top_k=reader.integer("top_k", 5, 1, max_top_k),
        max_top_k=max_top_k,
        threshold=reader.number("threshold", 0.0, 0.0, 1.0),
        label_files=label_files,
        default_language=reader.choice(
            "default_language", next(iter(label_files)), tuple(label_files)
        ),
        group_file=reader.file_name("group_file"),
        field_case=reader.choice("field_case", "snake", FIELD_CASES),
        layout=reader.choice("layout", "objects", LAYOUTS),
        decimals=reader.integer("decimals", 4, 0, 7),
    )
    reader.finish()
    return config


def _check_sizes(resize_mode: str, resize_size: int, crop_size: int) -> None:
    if resize_mode == "shortest_edge" and resize_size < crop_size:
        raise ConfigurationError("resize_size", resize_size, f"at least crop_size ({crop_size})")
    if resize_mode == "letterbox" and resize_size > crop_size:
        raise ConfigurationError(
            "resize_size", resize_size, f"at most crop_size ({crop_size}) with letterbox"
        )


def _normalisation(
    reader: _Reader, output: Mapping[str, Any], crop_size: int
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    data_type, dims = output["data_type"], [int(n) for n in output["dims"]]
    if data_type == "TYPE_UINT8" and dims == [crop_size, crop_size, 3]:
        for key in ("mean", "std"):
            reader.forbid(key, "no value with TYPE_UINT8 output: there the graph normalises")
        return None, None
    if data_type == "TYPE_FP32" and dims == [3, crop_size, crop_size]:
        return reader.triple("mean", minimum=None), reader.triple("std", minimum=1e-6)
    raise ConfigurationError(
        "PREPROCESSED_IMAGE",
        f"{data_type} {dims}",
        f"TYPE_UINT8 [{crop_size}, {crop_size}, 3] or TYPE_FP32 [3, {crop_size}, {crop_size}]",
    )


class _Reader:
    """Takes each parameter once; ``finish`` refuses what is left."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._left = dict(parameters)
        self._known: list[str] = []

    def _take(self, key: str, default: Any, allowed: str, convert: Callable[[str], Any]) -> Any:
        self._known.append(key)
        if key not in self._left:
            if default is None:
                raise ConfigurationError(key, None, f"{allowed}, and has no default")
            return default
        text = self._left.pop(key)
        try:
            return convert(text)
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(key, text, allowed) from error

    def integer(self, key: str, default: int | None, minimum: int, maximum: int) -> int:
        allowed = f"a whole number from {minimum} to {maximum}"
        return self._take(key, default, allowed, lambda t: _bounded(int(t), minimum, maximum))

    def number(self, key: str, default: float, minimum: float, maximum: float) -> float:
        allowed = f"a number from {minimum} to {maximum}"
        return self._take(key, default, allowed, lambda t: _bounded(float(t), minimum, maximum))

    def choice(self, key: str, default: str, options: tuple[str, ...]) -> str:
        return self._take(key, default, f"one of {', '.join(options)}", _one_of(options))

    def subset(self, key: str, options: tuple[str, ...]) -> tuple[str, ...]:
        allowed = f"a comma-separated list of {', '.join(options)}"
        return self._take(
            key,
            options,
            allowed,
            lambda t: tuple(_one_of(options)(p.strip()) for p in t.split(",")),
        )

    def rgb(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return self._take(
            key,
            default,
            "three whole numbers from 0 to 255, as in 255,255,255",
            lambda t: tuple(_bounded(int(v), 0, 255) for v in _three(t)),
        )

    def triple(self, key: str, minimum: float | None) -> tuple[float, ...]:
        low = -math.inf if minimum is None else minimum
        bound = "" if minimum is None else f" above {minimum}"
        return self._take(
            key,
            None,
            f"three numbers{bound}, as in 0.485,0.456,0.406",
            lambda t: tuple(_bounded(_finite(v), low, math.inf) for v in _three(t)),
        )

    def file_name(self, key: str) -> str | None:
        return self._take(key, "", "a file name in the version folder", _plain_name) or None

    def label_files(self, key: str) -> dict[str, str]:
        def convert(text: str) -> dict[str, str]:
            files = json.loads(text)
            if not isinstance(files, dict) or not files:
                raise ValueError(text)
            return {language.lower(): _plain_name(name) for language, name in files.items()}

        return self._take(key, None, 'a JSON object such as {"en": "labels_en.json"}', convert)

    def forbid(self, key: str, reason: str) -> None:
        self._known.append(key)
        if key in self._left:
            raise ConfigurationError(key, self._left[key], reason)

    def finish(self) -> None:
        for key, value in self._left.items():
            raise ConfigurationError(key, value, f"the keys {', '.join(sorted(self._known))}")


def _bounded(value: Any, minimum: Any, maximum: Any) -> Any:
    if not minimum <= value <= maximum:
        raise ValueError(value)
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _three(text: str) -> list[str]:
    parts = text.split(",")
    if len(parts) != 3:
        raise ValueError(text)
    return parts


def _one_of(options: tuple[str, ...]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in options:
            raise ValueError(text)
        return text

    return convert


def _plain_name(text: Any) -> str:
    if not isinstance(text, str) or not text or PurePosixPath(text).name != text:
        raise ValueError(text)
    return text
