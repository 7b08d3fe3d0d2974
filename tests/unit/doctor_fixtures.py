"""Fixtures of the doctor's tests: a checkout, and a host that has nothing but stand-ins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine import host as engine_host

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with the stand-ins of this test only."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "echo"):
        (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(engine_host, "TRTEXEC_PLACES", ())
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "model_repository").mkdir(parents=True)
    (folder / "common").mkdir()
    shutil.copy(ROOT / ".env.example", folder)
    return folder
