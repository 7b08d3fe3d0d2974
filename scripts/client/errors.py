"""What can go wrong between a client and the server; every text is one line with its cause.

ClientError
├── RequestRefused       the server refused the request itself: parameter, model, size, access
├── ServerUnreachable    no answer: nothing listens, no name, no time left, or busy after retries
├── Transient            busy or a dropped connection: worth another try, never leaves the client
├── ServerFailed         the server failed this one request: becomes its images' SERVER_ERROR
└── SourceError          an input that cannot be read: becomes its own UNREADABLE
"""

from __future__ import annotations

# Codes of the client, beside the server's catalogue (common/errors.py).
SERVER_ERROR = "SERVER_ERROR"
UNREADABLE = "UNREADABLE"


class ClientError(Exception):
    """The base of all errors here."""


class RequestRefused(ClientError):
    """HTTP 4xx, or its gRPC counterpart; trying again cannot help."""


class ServerUnreachable(ClientError):
    """No answer from the address."""


class Transient(ClientError):
    """HTTP 429, 502, 503, 504, gRPC UNAVAILABLE, or a connection that broke."""


class ServerFailed(ClientError):
    """HTTP 500 and its kin, or an answer that is none."""


class SourceError(ClientError):
    """A file, folder, pattern or address that yields no image."""


def one_line(text: object, limit: int = 300) -> str:
    """A text of anyone's making, fit for one line of a message."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
