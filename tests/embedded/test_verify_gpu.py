"""scripts/verify_gpu.py against the CPU server: it finds that nothing runs on a GPU, and compares.

On a GPU host tests/gpu runs it for real.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import verify_gpu
from embedded import EmbeddedServer


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in that names a GPU which is not there."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\n# stand-in\necho NVIDIA L4, 8.9, 595.58.03\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def verify(
    server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, dict[str, str]]]:
    code = verify_gpu.main(
        ["--url", server.http_url, "--metrics-url", server.metrics_url.removesuffix("/metrics"),
         "--json"]
    )  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    return code, {finding["check"]: finding for finding in found}


@pytest.mark.usefixtures("nvidia_smi")
def test_a_cpu_server_is_told_from_a_gpu_server(
    server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = verify(server, capsys)
    assert code == 1
    assert found["backend"]["detail"] == "resnet50_inference runs on onnxruntime"
    assert found["GPU metrics"]["status"] == "problem"
    assert "nv_gpu_utilization" in found["GPU metrics"]["detail"]
    assert found["build info"]["status"] == "problem"


@pytest.mark.usefixtures("nvidia_smi")
def test_the_served_logits_of_photographs_are_compared_with_onnx_runtime(
    server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = verify(server, capsys)
    assert found["parity"]["status"] == "ok"
    assert found["parity"]["detail"].startswith("6 photographs: cosine >= 1.0")


def test_without_a_gpu_it_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert verify_gpu.main([]) == 2
    error = capsys.readouterr().err
    assert "nvidia-smi not found" in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("nvidia_smi")
def test_without_a_server_it_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_gpu.main(["--url", "http://127.0.0.1:1"]) == 2
    assert "docker compose up -d --wait, with MODEL_CONFIG=tensorrt" in capsys.readouterr().err
