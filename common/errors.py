"""The error catalogue.

    ImageError                  one image failed; its code and message travel in its own result
    ├── EmptyInput              EMPTY_INPUT
    ├── InvalidBase64           INVALID_BASE64
    ├── UnsupportedFormat       UNSUPPORTED_FORMAT
    ├── CorruptImage            CORRUPT_IMAGE
    ├── ImageTooLarge           IMAGE_TOO_LARGE
    ├── InvalidModelOutput      INVALID_MODEL_OUTPUT
    └── InternalError           INTERNAL
    RequestError                the request itself is malformed: HTTP 400, no image is at fault
    ConfigurationError          a config.pbtxt parameter or file is wrong: the load is refused

Messages are read by clients: fixed texts plus safe numbers, never a path, a secret or a traceback.
"""

from __future__ import annotations

from typing import ClassVar


class ImageError(Exception):
    """One image cannot be answered; ``code`` is its wire code, ``str(error)`` its message."""

    code: ClassVar[str]
    meaning: ClassVar[str]
    server_fault: ClassVar[bool] = False

    @property
    def status(self) -> str:
        """IMAGE_STATUS as it travels beside the image: ``CODE: message``."""
        return f"{self.code}: {self}"


class EmptyInput(ImageError):
    """The element holds no bytes, or only white space."""

    code = "EMPTY_INPUT"
    meaning = "no bytes, or only white space"


class InvalidBase64(ImageError):
    """The element is text, but not base64."""

    code = "INVALID_BASE64"
    meaning = "text that is not base64"


class UnsupportedFormat(ImageError):
    """The bytes are no image, or of a format or pixel type that is not accepted."""

    code = "UNSUPPORTED_FORMAT"
    meaning = "no image, or a format or pixel type that is not accepted"


class CorruptImage(ImageError):
    """An accepted format that cannot be decoded in full."""

    code = "CORRUPT_IMAGE"
    meaning = "an accepted format that cannot be decoded in full"


class ImageTooLarge(ImageError):
    """More bytes or pixels than the configured limits, seen before decoding."""

    code = "IMAGE_TOO_LARGE"
    meaning = "more bytes or pixels than configured"


class InvalidModelOutput(ImageError):
    """The network's logits are NaN or infinite."""

    code = "INVALID_MODEL_OUTPUT"
    meaning = "the network answered NaN or infinity"
    server_fault = True


class InternalError(ImageError):
    """A fault of ours; the server log has the traceback."""

    code = "INTERNAL"
    meaning = "a fault of the server; its log says which"
    server_fault = True

    def __init__(self) -> None:
        super().__init__("internal error; see the server log")


CATALOGUE: tuple[type[ImageError], ...] = (
    EmptyInput,
    InvalidBase64,
    UnsupportedFormat,
    CorruptImage,
    ImageTooLarge,
    InvalidModelOutput,
    InternalError,
)
ERROR_CODES: tuple[str, ...] = tuple(error.code for error in CATALOGUE)


def split_status(status: str) -> tuple[str, str]:
    """``CODE: message`` → (code, message); an unknown code becomes INTERNAL."""
    code, _, message = status.partition(": ")
    if code not in ERROR_CODES:
        return InternalError.code, str(InternalError())
    return code, message


class RequestError(ValueError):
    """A request parameter or tensor is malformed; names key, value and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key}={_shown(value)} is not allowed; allowed: {allowed}")


class ConfigurationError(ValueError):
    """A configuration value is wrong; names key, value and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key}={_shown(value)} is not allowed; allowed: {allowed}")


def _shown(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"
