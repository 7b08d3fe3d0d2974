"""The doctor's look at built engines and at weights, on hosts made of stand-ins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import engine_standins
import pytest
from doctor_standins import look, nvidia_smi

from common import manifest
from doctor_checks import engines, stages
from doctor_checks.finding import Status

pytestmark = pytest.mark.usefixtures("tools")
pytest_plugins = ["doctor_fixtures"]

ROOT = Path(__file__).resolve().parents[2]
RTX = "NVIDIA GeForce RTX 4090, 8.9, 595.58.03"


@pytest.fixture
def engine(checkout: Path, tools: Path) -> Path:
    """A checkout whose toy pipeline has a plan, built by the stand-ins for an RTX 4090."""
    folder = engine_standins.make_version(checkout / "model_repository")
    made = engine_standins.make_host(tools.parent / "gpu_host")
    made.set(generation="10.16", gpus=[RTX])
    environ = {**os.environ, "PATH": f"{made.bin}:{tools}", "XDG_CACHE_HOME": str(tools.parent)}
    command = [sys.executable, str(ROOT / "scripts/build_engine.py")]
    subprocess.run(
        [*command, "--repository", str(checkout / "model_repository")],
        env=environ,
        check=True,
        capture_output=True,
    )
    return folder


def test_an_engine_of_this_host_is_well(engine: Path, checkout: Path, tools: Path) -> None:
    nvidia_smi(tools, RTX)
    finding = look(engines.check_engine, checkout)
    assert (finding.status, finding.detail) == (
        Status.OK,
        "toy version 1: built on NVIDIA GeForce RTX 4090, TensorRT 10.16.1",
    )


def test_an_engine_of_another_gpu_is_found_without_trtexec(
    engine: Path, checkout: Path, tools: Path
) -> None:
    nvidia_smi(tools, "NVIDIA L4, 8.9, 595.58.03")
    finding = look(engines.check_engine, checkout)
    assert "built for NVIDIA GeForce RTX 4090 (driver 595.58.03)" in finding.detail
    assert "make export-trt" in finding.fix


def test_an_engine_of_another_tensorrt_than_the_releases_is_found(
    engine: Path, checkout: Path
) -> None:
    finding = look(engines.check_engine, checkout, NGC_RELEASE="26.06")
    assert "built with TensorRT 10.16.1, NGC_RELEASE 26.06 has 11.0" in finding.detail


def test_an_engine_whose_profile_is_smaller_than_the_batch_is_found(
    engine: Path, checkout: Path
) -> None:
    config = engine.parent / "configs" / "tensorrt.pbtxt"
    config.write_text(config.read_text().replace("max_batch_size: 32", "max_batch_size: 64"))
    finding = look(engines.check_engine, checkout)
    assert "ends at batch 32, max_batch_size is 64" in finding.detail


def test_an_altered_plan_is_found(engine: Path, checkout: Path) -> None:
    (engine / "model.plan").write_bytes(b"altered")
    assert "model.plan differs from its checksum" in look(engines.check_engine, checkout).detail


def test_a_plan_of_an_earlier_model_is_found(engine: Path, checkout: Path) -> None:
    document = manifest.read(engine)
    document["plan"]["source_onnx_sha256"] = "0" * 64
    manifest.write(document, engine / "manifest.json")
    assert "built from another model.onnx" in look(engines.check_engine, checkout).detail


def test_random_weights_are_a_warning(checkout: Path) -> None:
    engine_standins.make_version(checkout / "model_repository")
    finding = look(stages.check_meaning, checkout)
    assert finding.status is Status.WARNING
    assert "random:0: its answers are meaningless" in finding.detail
