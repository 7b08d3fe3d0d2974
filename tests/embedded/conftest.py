"""A running server of the project's own models, and servers of tiny ONNX models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded import EmbeddedError, EmbeddedServer


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """The project's model repository, served by the real tritonserver on free ports."""
    running = EmbeddedServer()
    try:
        running.__enter__()
    except EmbeddedError as error:
        pytest.fail(f"the embedded server does not start: {error}", pytrace=False)
    try:
        yield running
    finally:
        running.stop()
