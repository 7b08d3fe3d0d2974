"""What one request may choose: top_k, threshold, lang, group; anything else is a 400."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import RequestError
from common.parameters import PostprocessConfig
from common.postprocess.labels import Labels

ACCEPT_LANGUAGE = "accept-language"
_KEYS = ("top_k", "threshold", "lang", "group")
# Keys of Triton's generate extension that it hands on like parameters.
_OF_THE_PROTOCOL = ("id", "stream")


@dataclass(frozen=True)
class RequestOptions:
    """Checked options of one request; ``language`` is one that the labels have."""

    top_k: int
    threshold: float
    language: str
    group: bool


def parse_options(
    parameters: Mapping[str, object], config: PostprocessConfig, labels: Labels
) -> RequestOptions:
    """Read request parameters and a forwarded Accept-Language header.

    A language we do not have falls back to the default one. Raises RequestError for an unknown
    key or a value out of the server's bounds.
    """
    given = {key: value for key, value in parameters.items() if key in _KEYS}
    expected = (*_KEYS, *_OF_THE_PROTOCOL)
    unknown = [k for k in parameters if k not in expected and k.lower() != ACCEPT_LANGUAGE]
    if unknown:
        raise RequestError(unknown[0], parameters[unknown[0]], f"the parameters {', '.join(_KEYS)}")
    return RequestOptions(
        top_k=_top_k(given.get("top_k", config.top_k), config),
        threshold=_threshold(given.get("threshold", config.threshold)),
        language=_language(parameters, labels),
        group=_group(given.get("group", False)),
    )


def _top_k(value: object, config: PostprocessConfig) -> int:
    if type(value) is not int or not 1 <= value <= config.max_top_k:
        raise RequestError("top_k", value, f"a whole number from 1 to {config.max_top_k}")
    return value


def _threshold(value: object) -> float:
    if type(value) not in (int, float) or not 0 <= float(value) <= 1:  # type: ignore[arg-type]
        raise RequestError("threshold", value, "a number from 0 to 1")
    return float(value)  # type: ignore[arg-type]


def _group(value: object) -> bool:
    if not isinstance(value, bool):
        raise RequestError("group", value, "true or false")
    return value


def _language(parameters: Mapping[str, object], labels: Labels) -> str:
    if "lang" in parameters:
        value = parameters["lang"]
        if not isinstance(value, str) or not value.strip():
            raise RequestError(
                "lang", value, f"a language tag such as {', '.join(labels.by_language)}"
            )
        return labels.language(value.strip()) or labels.default_language
    for key, value in parameters.items():
        if key.lower() == ACCEPT_LANGUAGE and isinstance(value, str):
            return _negotiate(value, labels)
    return labels.default_language


def _negotiate(header: str, labels: Labels) -> str:
    """The best language of an Accept-Language header (RFC 9110 §12.5.4); never an error."""
    ranked: list[tuple[float, int, str]] = []
    for position, item in enumerate(header.split(",")[:32]):
        tag, _, weight = item.strip().partition(";")
        quality = _quality(weight)
        if quality > 0:
            ranked.append((-quality, position, tag.strip()))
    for _, _, tag in sorted(ranked):
        language = labels.default_language if tag == "*" else labels.language(tag)
        if language:
            return language
    return labels.default_language


def _quality(weight: str) -> float:
    if not weight.strip():
        return 1.0
    key, _, value = weight.strip().partition("=")
    try:
        quality = float(value) if key.strip().lower() == "q" else 0.0
    except ValueError:
        return 0.0
    return quality if math.isfinite(quality) and 0 <= quality <= 1 else 0.0
