"""Fixtures of the engine tests: a GPU host made of stand-ins, and an exported model."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import host as engine_host
from engine_standins import Host, make_host, make_version


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """PATH holds the stand-ins and the system's own tools, nothing of NVIDIA's."""
    made = make_host(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRT_VERSION", raising=False)
    monkeypatch.setattr(engine_host, "TRTEXEC_PLACES", ())
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The version folder of a model that was exported and has no engine yet."""
    return make_version(tmp_path / "repository")
