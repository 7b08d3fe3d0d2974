"""scripts/build_engine.py: which plans are kept, rebuilt or refused on which host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import engine_standins as standins
import onnx
import pytest
from engine_standins import Host, run

from common import manifest

Capture = pytest.CaptureFixture[str]
pytest_plugins = ["engine_standins.fixtures"]

ROOT = Path(__file__).resolve().parents[2]
CHANGES = [
    "GPU",
    "compute capability",
    "driver",
    "TensorRT",
    "shape profile",
    "model.plan",
    "model.onnx",
]


def test_a_matching_plan_is_left_alone(host: Host, folder: Path, capsys: Capture) -> None:
    assert run(folder) == 0
    assert run(folder) == 0
    assert len(host.calls("--saveEngine")) == 1
    assert "toy: up to date" in capsys.readouterr().out


def test_force_rebuilds_a_matching_plan(host: Host, folder: Path) -> None:
    assert run(folder) == 0
    assert run(folder, "--force") == 0
    assert len(host.calls("--saveEngine")) == 2


def other_host(host: Host, folder: Path, change: str) -> str:
    """Make one thing differ from what the plan was built for; returns the word that names it."""
    if change == "GPU":
        host.set(gpus=["NVIDIA A10G, 9.0, 580.95.05"])
    elif change == "compute capability":
        host.set(gpus=["NVIDIA H100 PCIe, 8.6, 580.95.05"])
    elif change == "driver":
        host.set(gpus=["NVIDIA H100 PCIe, 9.0, 595.58.03"])
    elif change == "TensorRT":
        host.set(generation="10.3")
    elif change == "shape profile":
        config = folder.parent / "configs" / "tensorrt.pbtxt"
        config.write_text(standins.CONFIG.replace("max_batch_size: 32", "max_batch_size: 64"))
    elif change == "model.plan":
        (folder / "model.plan").write_bytes(b"cut short")
    elif change == "model.onnx":
        onnx.save(standins.network(seed=1), str(folder / "model.onnx"))
        document = manifest.read(folder)
        document["onnx"]["sha256"] = manifest.sha256_of(folder / "model.onnx")
        manifest.write(document, folder / "manifest.json")
    return change


@pytest.mark.parametrize("change", CHANGES)
def test_check_refuses_a_plan_of_another_host_and_says_how_to_rebuild(
    change: str, host: Host, folder: Path, capsys: Capture
) -> None:
    assert run(folder) == 0
    assert run(folder, "--check") == 0
    word = other_host(host, folder, change)
    capsys.readouterr()

    assert run(folder, "--check") == 1

    out = capsys.readouterr().out
    assert word in out
    assert "make export-trt" in out
    assert len(host.calls("--saveEngine")) == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_of_another_host_is_rebuilt(change: str, host: Host, folder: Path) -> None:
    assert run(folder) == 0
    other_host(host, folder, change)
    assert run(folder) == 0
    assert len(host.calls("--saveEngine")) == 2
    assert run(folder, "--check") == 0


def test_a_driver_update_within_its_branch_keeps_the_plan(host: Host, folder: Path) -> None:
    assert run(folder) == 0
    host.set(gpus=["NVIDIA H100 PCIe, 9.0, 580.126.02"])
    assert run(folder, "--check") == 0


def test_check_looks_at_every_gpu_that_serves(host: Host, folder: Path, capsys: Capture) -> None:
    assert run(folder) == 0
    host.set(gpus=[standins.HOST_GPU, "NVIDIA L4, 8.9, 580.95.05"])
    assert run(folder, "--check") == 1
    assert "here it is NVIDIA L4" in capsys.readouterr().out


def test_check_without_an_engine_says_so(host: Host, folder: Path, capsys: Capture) -> None:
    assert run(folder, "--check") == 1
    assert "no engine has been built for toy_inference version 1" in capsys.readouterr().out


def test_check_needs_the_standard_library_and_common_only(host: Host, folder: Path) -> None:
    assert run(folder) == 0
    done = subprocess.run(
        [
            sys.executable,
            "-S",  # no site-packages
            str(ROOT / "scripts" / "build_engine.py"),
            "--check",
            "--repository",
            str(folder.parents[1]),
        ],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    # The stand-in itself is Python too, and its shebang line brings site-packages back.
    assert (done.returncode, done.stderr) == (0, "")
    assert "the engine fits this host" in done.stdout
