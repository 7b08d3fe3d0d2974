"""docs/troubleshooting.md names only commands, files, knobs and messages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")

# Our own messages that the page quotes, and where they are written.
QUOTED = {
    "TensorRT kept FP32 weights": "scripts/engine/building.py",
    "differs from the FP32 model": "scripts/engine/parity.py",
    "trtexec not found": "scripts/engine/host.py",
    "exceeds what FP16 holds": "scripts/engine/half.py",
    "straight into a Cast": "scripts/engine/half.py",
    "no admin key at": "docker/triton/entrypoint.sh",
    "is not allowed; allowed": "common/errors.py",
    "answering a request failed": "common/triton.py",
    "models ignore PYTHONPATH": "embedded/preflight.py",
    "nothing was published": "scripts/export_onnx.py",
}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`?make ([a-z][a-z-]+)", TEXT))))
def test_every_make_target_named_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\b(?:scripts|docs)/[\w./]+\w", TEXT))))
def test_every_path_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("words", QUOTED)
def test_every_message_quoted_is_really_written(words: str) -> None:
    assert words in TEXT
    assert words in (ROOT / QUOTED[words]).read_text(encoding="utf-8")


@pytest.mark.parametrize("knob", sorted(set(re.findall(r"`([A-Z]{3,}(?:_[A-Z]+)+)[`=]", TEXT))))
def test_every_knob_named_is_a_knob(knob: str) -> None:
    error_codes = (ROOT / "common" / "errors.py").read_text()
    files = [ROOT / ".env.example", ROOT / "docker-compose.yml"]
    assert f'"{knob}"' in error_codes or any(knob in path.read_text() for path in files)


def test_links_within_the_page_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    }
    assert {link[1:] for link in re.findall(r"\]\((#[^)]+)\)", TEXT)} <= anchors
