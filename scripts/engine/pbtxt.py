"""Protobuf text format read with the standard library, for the few fields an engine depends on.

Triton's own schema (tritonclient's ``model_config_pb2``) judges the files in scripts/doctor.py; the
serving container has neither tritonclient nor protobuf, and needs only the batch size and shape.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

# A message is name -> every value given for it, in order; a value is a message or its text.
Message = dict[str, list[Any]]

_TOKEN = re.compile(
    r"""\#[^\n]* | \s+ | ("(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | [{}\[\]<>:,;]
        | [^\s{}\[\]<>:,;"'\#]+) | (.)""",
    re.VERBOSE,
)
_CLOSING = {"{": "}", "<": ">"}


def parse(text: str) -> Message:
    """Read one message; raises ValueError naming the token that does not fit."""
    tokens = _tokens(text)
    return _message(tokens, None)


def _tokens(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        if match.group(2):
            raise ValueError(f"unexpected {match.group(2)!r}")
        if match.group(1):
            yield match.group(1)


def _message(tokens: Iterator[str], closing: str | None) -> Message:
    message: Message = {}
    for name in tokens:
        if name == closing:
            return message
        if name in ",;":
            continue
        if not re.match(r"\w+$", name):
            raise ValueError(f"unexpected {name!r} where a field name belongs")
        token = next(tokens, "")
        if token == ":":
            token = next(tokens, "")
        message.setdefault(name, []).extend(_values(tokens, token))
    if closing is not None:
        raise ValueError(f"a {closing!r} is missing at the end")
    return message


def _values(tokens: Iterator[str], token: str) -> Iterator[Any]:
    if token != "[":
        yield _value(tokens, token)
        return
    for item in tokens:
        if item == "]":
            return
        if item != ",":
            yield _value(tokens, item)
    raise ValueError("a ']' is missing at the end")


def _value(tokens: Iterator[str], token: str) -> Any:
    if token in _CLOSING:
        return _message(tokens, _CLOSING[token])
    if not token or token in "}]>:,;[":
        raise ValueError(f"unexpected {token or 'end of file'!r} where a value belongs")
    if token[0] in "\"'":
        return ast.literal_eval(token)
    return token
