"""scripts/build_engine.py when something is missing or wrong: one line, nothing published."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_standins import CONFIG, Host, plan_of, run

from engine import EngineError, building

Capture = pytest.CaptureFixture[str]
pytest_plugins = ["engine_standins.fixtures"]


def refused(folder: Path, capsys: Capture, code: int) -> str:
    """Run a build that must fail with ``code`` and leave the published files as they were."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert run(folder, "--force") == code
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


def test_an_option_that_trtexec_does_not_know_shows_its_words(
    host: Host, folder: Path, capsys: Capture
) -> None:
    host.set(refuses=["--stronglyTyped"])
    assert "Unknown option: --stronglyTyped" in refused(folder, capsys, 1)


def test_tensorrt_8_is_refused_because_it_would_not_obey_the_types(
    host: Host, folder: Path, capsys: Capture
) -> None:
    host.set(generation="8.6")
    error = refused(folder, capsys, 1)
    assert "TensorRT 8.6.1 has no --stronglyTyped" in error
    assert "NGC_RELEASE" in error


def test_a_failed_build_shows_the_end_of_trtexecs_output(
    host: Host, folder: Path, capsys: Capture
) -> None:
    assert run(folder) == 0
    host.set(build_fails=True)
    error = refused(folder, capsys, 1)
    assert "Could not find any implementation" in error
    assert "line 49" in error
    assert "line 3\n" not in error


def test_success_without_a_plan_is_a_failure(host: Host, folder: Path, capsys: Capture) -> None:
    host.set(writes_nothing=True)
    assert "wrote no plan" in refused(folder, capsys, 1)


def test_a_plan_of_fp32_size_is_refused(host: Host, folder: Path, capsys: Capture) -> None:
    assert run(folder) == 0
    host.set(plan_bytes=20_000_000)
    assert "TensorRT kept FP32 weights" in refused(folder, capsys, 1)


def test_a_truncated_plan_is_refused(host: Host, folder: Path, capsys: Capture) -> None:
    host.set(plan_bytes=10_000)
    assert "cut short" in refused(folder, capsys, 1)


@pytest.mark.parametrize(
    ("plan_mb", "accepted"),
    [(52, True), (59.8, True), (102, False), (111.8, False), (20, False)],
)
def test_resnet50_plans_are_told_apart_by_size(
    plan_mb: float, accepted: bool, tmp_path: Path
) -> None:
    plan = tmp_path / "model.plan"
    with plan.open("wb") as stream:
        stream.truncate(int(plan_mb * 1e6))
    half_onnx_bytes = 51_238_053
    if accepted:
        building.require_plan_size(plan, half_onnx_bytes)
    else:
        with pytest.raises(EngineError):
            building.require_plan_size(plan, half_onnx_bytes)


def test_an_engine_that_answers_differently_is_not_published(
    host: Host, folder: Path, capsys: Capture
) -> None:
    assert run(folder) == 0
    host.set(sign=-1)
    error = refused(folder, capsys, 1)
    assert "the engine differs from the FP32 model: cosine -1.0" in error


def test_an_engine_that_answers_nan_is_not_published(
    host: Host, folder: Path, capsys: Capture
) -> None:
    host.set(nan=True)
    assert "the engine gives NaN" in refused(folder, capsys, 1)


def test_an_altered_model_is_not_built_from(host: Host, folder: Path, capsys: Capture) -> None:
    (folder / "model.onnx").write_bytes(b"altered")
    error = refused(folder, capsys, 2)
    assert "differs from its manifest" in error
    assert "make export-onnx" in error


def test_without_an_exported_model_the_export_is_asked_for(
    host: Host, folder: Path, capsys: Capture
) -> None:
    (folder / "manifest.json").unlink()
    assert "export the model first" in refused(folder, capsys, 2)


def test_without_trtexec_one_line_says_where_to_build(
    host: Host, folder: Path, capsys: Capture
) -> None:
    (host.bin / "trtexec").unlink()
    error = refused(folder, capsys, 2)
    assert "trtexec not found" in error
    assert "make export-trt" in error
    assert error.count("\n") == 1


def test_without_a_driver_one_line_says_so(host: Host, folder: Path, capsys: Capture) -> None:
    (host.bin / "nvidia-smi").unlink()
    error = refused(folder, capsys, 2)
    assert "nvidia-smi not found" in error
    assert error.count("\n") == 1


def test_a_gpu_that_is_not_there_is_named(host: Host, folder: Path, capsys: Capture) -> None:
    config = folder.parent / "configs" / "tensorrt.pbtxt"
    config.write_text(CONFIG.replace("KIND_GPU", "KIND_GPU gpus: [ 3 ]"))
    assert "names GPU 3, this host has 1" in refused(folder, capsys, 2)


def test_a_tensorrt_without_a_name_can_be_named_by_the_image(
    host: Host,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    host.set(banner=False)
    assert "set TRT_VERSION" in refused(folder, capsys, 2)
    monkeypatch.setenv("TRT_VERSION", "10.16.1.11+cuda13.2")
    assert run(folder) == 0
    assert plan_of(folder)["tensorrt"] == "10.16.1"
