"""Embedded mode: the real tritonserver of the nvidia-pytriton wheel, on this machine's CPU."""

from embedded.errors import CanaryFailed, EmbeddedError, PreflightError, ServerDied
from embedded.server import EmbeddedServer

__all__ = ["CanaryFailed", "EmbeddedError", "EmbeddedServer", "PreflightError", "ServerDied"]
