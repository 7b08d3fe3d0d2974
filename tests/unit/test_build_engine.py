"""scripts/build_engine.py against stand-ins for trtexec and nvidia-smi: how plans are built."""

from __future__ import annotations

import json
from pathlib import Path

import engine_standins as standins
import pytest
from engine_standins import Host, plan_of, run

from common import manifest

Capture = pytest.CaptureFixture[str]
pytest_plugins = ["engine_standins.fixtures"]

ROOT = Path(__file__).resolve().parents[2]
RESNET50_VERSION = ROOT / "model_repository" / "resnet50_inference" / "1"


@pytest.mark.parametrize("generation", ["10.3", "10.16", "11.1", "11.9"])
def test_one_recipe_builds_on_every_tensorrt_from_10(
    generation: str, host: Host, folder: Path, capsys: Capture
) -> None:
    host.set(generation=generation)

    assert run(folder) == 0

    plan = plan_of(folder)
    major, minor = generation.split(".")
    assert plan["tensorrt"].startswith(f"{major}.{minor}.")
    assert plan["sha256"] == manifest.sha256_of(folder / "model.plan")
    assert plan["bytes"] == (folder / "model.plan").stat().st_size
    assert plan["shapes"] == {
        "input": {"min": [1, 16, 16, 3], "opt": [8, 16, 16, 3], "max": [32, 16, 16, 3]}
    }
    assert plan["parity"]["top1_agreement"] == 1
    assert plan["parity"]["cosine_min"] > 0.9999
    assert "toy: built" in capsys.readouterr().out


def test_the_fingerprint_names_gpu_driver_and_the_model_it_was_made_from(
    host: Host, folder: Path
) -> None:
    assert run(folder) == 0
    plan = plan_of(folder)
    assert (plan["gpu"], plan["compute_capability"], plan["driver"]) == (
        "NVIDIA H100 PCIe",
        "9.0",
        "580.95.05",
    )
    assert plan["source_onnx_sha256"] == manifest.sha256_of(folder / "model.onnx")
    assert plan["onnx_sha256"] != plan["source_onnx_sha256"]


def test_publishing_a_plan_keeps_the_rest_of_the_manifest(host: Host, folder: Path) -> None:
    before = manifest.read(folder)
    assert run(folder) == 0
    after = manifest.read(folder)
    del after["plan"]
    assert after == before


def test_the_build_command_types_the_graph_and_takes_its_shapes_from_the_configuration(
    host: Host, folder: Path
) -> None:
    assert run(folder) == 0
    (command,) = host.calls("--saveEngine")
    assert "--stronglyTyped" in command
    assert "--skipInference" in command
    assert "--minShapes=input:1x16x16x3" in command
    assert "--optShapes=input:8x16x16x3" in command
    assert "--maxShapes=input:32x16x16x3" in command
    assert not [flag for flag in command if flag in ("--fp16", "--workspace", "--explicitBatch")]


def test_strong_typing_is_not_asked_for_where_tensorrt_11_no_longer_lists_it(
    host: Host, folder: Path
) -> None:
    host.set(generation="11.9")
    assert run(folder) == 0
    assert host.calls("--stronglyTyped") == []
    assert plan_of(folder)["flags"] == []


def test_tensorrt_11_is_told_to_copy_data_when_the_plan_is_run(host: Host, folder: Path) -> None:
    host.set(generation="11.1")
    assert run(folder) == 0
    (command,) = host.calls("--loadEngine")
    assert "--includeDataTransfers" in command


def test_the_plan_is_run_once_on_a_fixed_input_before_it_is_published(
    host: Host, folder: Path
) -> None:
    assert run(folder) == 0
    (command,) = host.calls("--loadEngine")
    assert "--iterations=1" in command
    assert "--shapes=input:4x16x16x3" in command
    assert str(folder) not in " ".join(command)


def test_the_timing_cache_is_kept_for_the_next_build(
    host: Host, folder: Path, tmp_path: Path
) -> None:
    assert run(folder) == 0
    (kept,) = (tmp_path / "cache" / "resnet50-triton").iterdir()
    assert kept.read_bytes() == b"kernel times"
    assert kept.name == "10.16.1-NVIDIA-H100-PCIe.timing"


def test_the_engine_is_built_on_the_gpu_that_serves(host: Host, folder: Path) -> None:
    config = folder.parent / "configs" / "tensorrt.pbtxt"
    config.write_text(standins.CONFIG.replace("KIND_GPU", "KIND_GPU gpus: [ 1 ]"))
    host.set(gpus=["NVIDIA T4, 7.5, 580.95.05", standins.HOST_GPU])
    assert run(folder) == 0
    assert plan_of(folder)["gpu"] == "NVIDIA H100 PCIe"
    assert all("--device=1" in call for call in host.calls("--loadEngine"))


def test_json_output_is_one_list_of_fingerprints(host: Host, folder: Path, capsys: Capture) -> None:
    assert run(folder, "--json") == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["outcome"] == "built"
    assert result["sha256"] == plan_of(folder)["sha256"]


def test_a_dry_run_prints_the_command_without_trtexec_or_gpu(
    host: Host, folder: Path, capsys: Capture
) -> None:
    (host.bin / "trtexec").unlink()
    (host.bin / "nvidia-smi").unlink()
    assert run(folder, "--dry-run") == 0
    command = capsys.readouterr().out
    assert command.startswith("trtexec ")
    assert "--maxShapes=input:32x16x16x3" in command
    assert "--stronglyTyped" in command
    assert not (folder / "model.plan").exists()


def test_a_dry_run_shows_what_the_trtexec_at_hand_would_get(
    host: Host, folder: Path, capsys: Capture
) -> None:
    host.set(generation="11.9")
    assert run(folder, "--dry-run") == 0
    assert "--stronglyTyped" not in capsys.readouterr().out
    assert host.calls("--saveEngine") == []


def test_the_projects_own_engine_gets_batches_1_to_32_tuned_for_8(
    capsys: Capture,
) -> None:
    assert run(RESNET50_VERSION, "--dry-run", "--pipeline", "resnet50") == 0
    command = capsys.readouterr().out
    for shape in ("min", "opt", "max"):
        batch = {"min": 1, "opt": 8, "max": 32}[shape]
        assert f"--{shape}Shapes=input:{batch}x224x224x3" in command


def test_a_pipeline_without_tensorrt_is_a_usage_error(folder: Path, capsys: Capture) -> None:
    assert run(folder, "--dry-run", "--pipeline", "other") == 2
    assert "no TensorRT configuration" in capsys.readouterr().err
