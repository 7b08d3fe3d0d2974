"""The tool that draws the dashboards, and what it drew."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "grafana" / "pictures"
PICTURES = ROOT / "docs" / "pictures"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_BYTES = 400_000


def test_every_package_is_pinned_to_one_version() -> None:
    manifest = json.loads((TOOL / "package.json").read_text(encoding="utf-8"))
    versions = {**manifest["dependencies"], **manifest["devDependencies"]}
    assert {name for name, text in versions.items() if not re.fullmatch(r"[\d.]+", text)} == set()


def test_the_lock_file_names_no_host_to_fetch_from() -> None:
    lock = json.loads((TOOL / "package-lock.json").read_text(encoding="utf-8"))
    assert {name for name, package in lock["packages"].items() if "resolved" in package} == set()


@pytest.mark.parametrize("name", ["overview.png", "stages.png"])
def test_a_picture_is_a_png_that_a_page_can_carry(name: str) -> None:
    content = (PICTURES / name).read_bytes()
    assert content.startswith(PNG_SIGNATURE)
    assert len(content) < MAX_BYTES
