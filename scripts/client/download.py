"""Fetch one picture from a web address: bounded in bytes and in time."""

from __future__ import annotations

import time
from collections.abc import Callable

import requests

from client.errors import SourceError, one_line

# Connecting, then waiting for the next block of a running transfer.
TIMEOUT_S = (5.0, 15.0)
# The whole transfer, so that a server that drips cannot hold us for ever.
DEADLINE_S = 120.0
_BLOCK_BYTES = 1 << 16

OnProgress = Callable[[str, int, int | None], None]


def fetch(url: str, max_bytes: int, on_progress: OnProgress = lambda *_: None) -> bytes:
    """The body behind ``url``; redirects are followed. Raises SourceError with the cause.

    ``on_progress`` is told (url, bytes so far, bytes in all or None).
    """
    deadline = time.monotonic() + DEADLINE_S
    try:
        with requests.get(url, stream=True, timeout=TIMEOUT_S) as response:
            if not response.ok:
                raise SourceError(f"the web server answered HTTP {response.status_code}")
            return _body(response, url, max_bytes, deadline, on_progress)
    except requests.exceptions.SSLError:
        cause = "the web server's certificate is not trusted"
    except requests.exceptions.Timeout:
        cause = f"no answer within {TIMEOUT_S[0]:g} s to connect, {TIMEOUT_S[1]:g} s to send"
    except requests.exceptions.ChunkedEncodingError:
        cause = "the transfer ended early"
    except requests.exceptions.ConnectionError as error:
        cause = _cause(error)
    except (requests.exceptions.RequestException, ValueError) as error:
        cause = one_line(error, 120)
    raise SourceError(cause)


def _body(
    response: requests.Response,
    url: str,
    max_bytes: int,
    deadline: float,
    on_progress: OnProgress,
) -> bytes:
    declared = response.headers.get("Content-Length", "")
    total = int(declared) if declared.isdigit() else None
    too_large = SourceError(f"larger than {max_bytes >> 20} MiB")
    if total is not None and total > max_bytes:
        raise too_large
    body = bytearray()
    for block in response.iter_content(_BLOCK_BYTES):
        body += block
        if len(body) > max_bytes:
            raise too_large
        if time.monotonic() > deadline:
            raise SourceError(f"not complete within {DEADLINE_S:g} s")
        on_progress(url, len(body), total)
    return bytes(body)


def _cause(error: BaseException) -> str:
    """The innermost reason; what requests wraps around it names objects and addresses."""
    found: BaseException | object = error
    while isinstance(found, BaseException):
        error = found
        reason = getattr(found, "reason", None)
        found = reason if isinstance(reason, BaseException) else next(iter(found.args), None)
    text = str(error)
    if isinstance(error, ConnectionRefusedError) or "refused" in text:
        return "nothing listens at this address"
    if "resolve" in text or "not known" in text:
        return "the host's name is unknown, or there is no network"
    return f"the connection broke ({one_line(text, 80)})"
