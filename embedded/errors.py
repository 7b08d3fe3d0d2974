"""What can go wrong with the embedded server: one line of cause and fix each.

EmbeddedError
├── PreflightError   this machine or repository cannot serve; nothing was started
├── ServerDied       tritonserver ended before it was ready; carries its last meaningful log lines
└── CanaryFailed     tritonserver runs, but an ensemble does not answer as it should
"""


class EmbeddedError(RuntimeError):
    """Base of all errors of embedded mode; the message is for people."""


class PreflightError(EmbeddedError):
    """The check that failed, and what to do about it."""


class ServerDied(EmbeddedError):
    """The server's exit code and its last meaningful log lines."""


class CanaryFailed(EmbeddedError):
    """The ensemble that failed and what it answered."""
