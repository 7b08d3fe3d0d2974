"""`doctor --lint`: the repository passes, and every mutated copy yields its finding."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from common import manifest
from doctor_checks.checks import CONFIGURATION
from doctor_checks.finding import Finding, Status
from doctor_checks.project import Project

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("preprocess", "inference", "postprocess", "ensemble")
PREPROCESS = "model_repository/resnet50_preprocess/config.pbtxt"
INFERENCE = "model_repository/resnet50_inference/config.pbtxt"
TENSORRT = "model_repository/resnet50_inference/configs/tensorrt.pbtxt"
CPU = "model_repository/resnet50_inference/configs/cpu.pbtxt"
POSTPROCESS = "model_repository/resnet50_postprocess/config.pbtxt"
ENSEMBLE = "model_repository/resnet50_ensemble/config.pbtxt"
LABELS = "model_repository/resnet50_postprocess/1/labels_zh.json"
COMPOSE = "docker-compose.yml"
VERSION = "model_repository/resnet50_inference/1"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The tracked configuration of the ResNet50 pipeline, without exported files."""
    for model in MODELS:
        shutil.copytree(
            ROOT / "model_repository" / f"resnet50_{model}",
            tmp_path / "model_repository" / f"resnet50_{model}",
            ignore=shutil.ignore_patterns("*.onnx", "*.plan", "manifest*.json", "__pycache__"),
        )
    for name in (COMPOSE, ".env.example"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def findings(project: Path, **environ: str) -> list[Finding]:
    """What the lint has to say, without what is well or does not apply."""
    loaded = Project.load(project, environ)
    found = [finding for check in CONFIGURATION for finding in check.run(loaded)]
    return [f for f in found if f.status not in (Status.OK, Status.NOT_APPLICABLE)]


def only(found: list[Finding], check: str) -> Finding:
    """The one finding there must be, with a fix."""
    assert [finding.check for finding in found] == [check], found
    assert found[0].fix
    return found[0]


def test_the_repository_has_no_finding(copy: Path) -> None:
    assert findings(copy) == []


# (file, text, what it is replaced with, the check that must notice, words of its finding)
MUTATIONS = {
    "parameter value without string_value": (
        PREPROCESS,
        'value: { string_value: "232" }',
        'value: "232"',
        "config parses",
        'Expected "{"',
    ),
    "dynamic_batching as a list": (
        CPU,
        "dynamic_batching {",
        "dynamic_batching [ { max_queue_delay_microseconds: 0 } ]\nmodel_transaction_policy {",
        "config parses",
        "cpu.pbtxt",
    ),
    "version_policy as a word": (
        INFERENCE,
        "max_batch_size: 32",
        'version_policy: "latest"\nmax_batch_size: 32',
        "config parses",
        "version_policy",
    ),
    "a comma missing between two blocks": (
        POSTPROCESS,
        "dims: [ 1000 ] },",
        "dims: [ 1000 ] }",
        "config parses",
        'Expected ","',
    ),
    "an unknown key": (ENSEMBLE, "max_batch_size", "max_batch", "config parses", "max_batch"),
    "another model's name": (
        INFERENCE,
        'name: "resnet50_inference"',
        'name: "resnet_inference"',
        "config file",
        "name is 'resnet_inference'",
    ),
    "no backend": (INFERENCE, 'backend: "onnxruntime"', "", "config file", "no backend"),
    "a preferred batch above the maximum": (
        TENSORRT,
        "dynamic_batching {",
        "dynamic_batching { preferred_batch_size: [ 8, 64 ]",
        "config file",
        "preferred_batch_size 64 is above max_batch_size 32",
    ),
    "an engine tuned for more than the maximum": (
        TENSORRT,
        'string_value: "8"',
        'string_value: "64"',
        "config file",
        "opt_batch_size is '64'",
    ),
    "a TensorRT profile below the maximum batch": (
        INFERENCE,
        "instance_group",
        'optimization { execution_accelerators { gpu_execution_accelerator : [ { name: "tensorrt" '
        'parameters { key: "trt_profile_max_shapes" value: "input:8x224x224x3" } } ] } }\n'
        "instance_group",
        "config file",
        "trt_profile_max_shapes input:8x224x224x3 ends below max_batch_size 32",
    ),
    "a dim of zero": (CPU, "dims: [ 1000 ]", "dims: [ 0 ]", "config file", "dims [0]"),
    "dynamic batching on a Python step": (
        PREPROCESS,
        "instance_group",
        "dynamic_batching { max_queue_delay_microseconds: 100000 }\ninstance_group",
        "config file",
        "every lone request",
    ),
    "an alternate with another input type": (
        TENSORRT,
        "TYPE_UINT8",
        "TYPE_FP32",
        "alternates agree",
        "input TYPE_FP32 [224, 224, 3], config.pbtxt has input TYPE_UINT8",
    ),
    "an alternate with another output name": (
        CPU,
        'name: "output"',
        'name: "logits"',
        "alternates agree",
        "config.pbtxt has output TYPE_FP32 [1000]",
    ),
    "an alternate with another batch size": (
        TENSORRT,
        "max_batch_size: 32",
        "max_batch_size: 64",
        "alternates agree",
        "max_batch_size 64, config.pbtxt has 32",
    ),
    "a step that is no model": (
        ENSEMBLE,
        'model_name: "resnet50_inference"',
        'model_name: "resnet101_inference"',
        "ensemble wiring",
        "resnet101_inference is no model",
    ),
    "a step input that does not exist": (
        ENSEMBLE,
        'input_map { key: "RAW_IMAGE"',
        'input_map { key: "IMAGE"',
        "ensemble wiring",
        "maps input IMAGE, which that model lacks",
    ),
    "a step input that nobody fills": (
        ENSEMBLE,
        'input_map { key: "RECEIVED_NS" value: "received_ns" }',
        "",
        "ensemble wiring",
        "gets no RECEIVED_NS",
    ),
    "a tensor without a producer": (
        ENSEMBLE,
        'value: "preprocessed_image" }\n      output_map { key: "IMAGE_STATUS"',
        'value: "image" }\n      output_map { key: "IMAGE_STATUS"',
        "ensemble wiring",
        "nothing produces it",
    ),
    "a tensor with two producers": (
        ENSEMBLE,
        'output_map { key: "output" value: "logits" }',
        'output_map { key: "output" value: "image_status" }',
        "ensemble wiring",
        "image_status comes from resnet50_preprocess and from resnet50_inference",
    ),
    "an output without a producer": (
        ENSEMBLE,
        'output_map { key: "OUTPUT_RESULTS" value: "OUTPUT_RESULTS" }',
        'output_map { key: "OUTPUT_RESULTS" value: "results" }',
        "ensemble wiring",
        "output OUTPUT_RESULTS is produced by no step",
    ),
    "an ensemble batch above a step's": (
        ENSEMBLE,
        "max_batch_size: 32",
        "max_batch_size: 64",
        "ensemble wiring",
        "max_batch_size 64 is above resnet50_preprocess's 32",
    ),
    "an unknown parameter": (
        POSTPROCESS,
        'key: "threshold"',
        'key: "treshold"',
        "stage parameters",
        "treshold",
    ),
    "a parameter out of range": (
        PREPROCESS,
        'string_value: "4"',
        'string_value: "400"',
        "stage parameters",
        "jpeg_scale_gap",
    ),
    "a field that this release does not know": (
        ENSEMBLE,
        "ensemble_scheduling {",
        "ensemble_scheduling { max_inflight_requests: 16",
        "keys and flags known",
        "max_inflight_requests is known since 25.11, the embedded server is 24.10",
    ),
    "a flag that the embedded server does not know": (
        COMPOSE,
        "      - --load-model=*\n",
        "      - --load-model=*\n      - --allow-client-shm=true\n",
        "keys and flags known",
        "--allow-client-shm is known since 26.04, the embedded server is 24.10",
    ),
    "a flag of old servers": (
        COMPOSE,
        "      - --load-model=*\n",
        "      - --load-model=*\n      - --response-cache-byte-size=1048576\n",
        "keys and flags known",
        "--response-cache-byte-size is deprecated",
    ),
    "a misspelt release": (
        ".env.example",
        "NGC_RELEASE=26.05",
        "NGC_RELEASE=26.5",
        "NGC release",
        "NGC_RELEASE is '26.5'",
    ),
    "an old release": (
        ".env.example",
        "NGC_RELEASE=26.05",
        "NGC_RELEASE=25.07",
        "NGC release",
        "dead Python stub",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutated_copy_yields_its_finding(name: str, copy: Path) -> None:
    file, old, new, check, words = MUTATIONS[name]
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1))
    finding = only([f for f in findings(copy) if f.check == check][:1], check)
    assert words in finding.detail


@pytest.mark.parametrize(
    "name", ["a parameter out of range", "a step that is no model", "another model's name"]
)
def test_one_mistake_is_one_finding(name: str, copy: Path) -> None:
    file, old, new, check, _ = MUTATIONS[name]
    (copy / file).write_text((copy / file).read_text().replace(old, new, 1))
    only(findings(copy), check)


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (POSTPROCESS, "TYPE_FP32", "TYPE_FP16", "differ in type: TYPE_FP32 and TYPE_FP16"),
        (PREPROCESS, "dims: [ 224, 224, 3 ]", "dims: [ 3, 224, 224 ]", "differ in dims: [3, 224"),
    ],
)
def test_an_edge_whose_ends_differ_is_found(
    file: str, old: str, new: str, words: str, copy: Path
) -> None:
    (copy / file).write_text((copy / file).read_text().replace(old, new, 1))
    wiring = [finding for finding in findings(copy) if finding.check == "ensemble wiring"]
    assert words in only(wiring, "ensemble wiring").detail


def test_a_field_newer_than_the_release_is_found(copy: Path) -> None:
    file, old, new, check, _ = MUTATIONS["a field that this release does not know"]
    (copy / file).write_text((copy / file).read_text().replace(old, new, 1))
    details = [f.detail for f in findings(copy, NGC_RELEASE="25.10") if f.check == check]
    assert "max_inflight_requests is known since 25.11, NGC_RELEASE is 25.10" in details[0]


def test_a_fix_says_what_to_write(copy: Path) -> None:
    file, old, new, *_ = MUTATIONS["parameter value without string_value"]
    (copy / file).write_text((copy / file).read_text().replace(old, new, 1))
    assert "string_value" in findings(copy)[0].fix


def test_a_folder_that_is_no_model_is_found(copy: Path) -> None:
    (copy / "model_repository" / ".staging").mkdir()
    assert ".staging has no config.pbtxt" in only(findings(copy), "config parses").detail


def test_a_version_folder_that_triton_ignores_is_found(copy: Path) -> None:
    (copy / "model_repository" / "resnet50_inference" / "01").mkdir()
    assert "begin with 0" in only(findings(copy), "config file").detail


def test_a_label_file_of_another_length_is_found(copy: Path) -> None:
    (copy / LABELS).write_text(json.dumps(["猫"] * 999, ensure_ascii=False))
    assert "999 names" in only(findings(copy), "stage parameters").detail


def test_a_missing_label_file_is_found(copy: Path) -> None:
    (copy / LABELS).unlink()
    assert "labels_zh.json" in only(findings(copy), "stage parameters").detail


# --- exported files ---------------------------------------------------------------------------


def export(project: Path, **changes: object) -> Path:
    """A tiny ONNX file with ResNet50's signature and its manifest; ``changes`` spoil it."""
    folder = project / VERSION
    batch = changes.get("batch", "n")
    weight = numpy_helper.from_array(
        onnx.numpy_helper.to_array(helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0])), "w"
    )
    if "side_file" in changes:
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=str(changes["side_file"]))
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["output"])],
        "signature",
        [
            helper.make_tensor_value_info(
                "input", changes.get("input_type", TensorProto.UINT8), [batch, 224, 224, 3]
            )
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, 1000])],
        [weight],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", int(str(changes.get("opset", 20))))]
    )
    model.ir_version = int(str(changes.get("ir_version", 10)))
    path = folder / manifest.MODEL_NAME
    path.write_bytes(model.SerializeToString())
    recipe = {
        "resize_size": changes.get("resize_size", 232),
        "crop_size": 224,
        "resize_mode": "shortest_edge",
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "normalised_in_graph": True,
    }
    manifest.write(
        {
            "pipeline": "resnet50",
            "weights": {"name": "IMAGENET1K_V2", "sha256": "0" * 64},
            "meaningful": True,
            "recipe": recipe,
            "onnx": {"sha256": manifest.sha256_of(path)},
        },
        folder / manifest.MANIFEST_NAME,
    )
    return path


def test_a_fitting_export_has_no_finding(copy: Path) -> None:
    export(copy)
    assert findings(copy) == []


def test_a_recipe_of_other_weights_is_found(copy: Path) -> None:
    export(copy, resize_size=256)
    detail = only(findings(copy), "recipe fits the weights").detail
    assert "resize_size is 232 in the configuration, but the weights need 256" in detail


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ir_version": 99}, "IR version 99, ONNX Runtime of NGC 24.10 reads up to 10"),
        ({"opset": 24}, "opset 24, ONNX Runtime of NGC 24.10 reads up to 21"),
        ({"side_file": "model.onnx.data"}, "lie in model.onnx.data, which is missing"),
        ({"batch": 1}, "input of model.onnx has the fixed batch 1"),
        ({"input_type": TensorProto.FLOAT}, "input is TYPE_FP32 in model.onnx, TYPE_UINT8"),
    ],
)
def test_an_export_that_triton_would_refuse_is_found(
    changes: dict[str, object], words: str, copy: Path
) -> None:
    export(copy, **changes)
    details = [f.detail for f in findings(copy) if f.check == "exported model"]
    assert any(words in detail for detail in details), details


def test_an_altered_export_is_found(copy: Path) -> None:
    path = export(copy)
    path.write_bytes(path.read_bytes()[:-10])
    details = [finding.detail for finding in findings(copy)]
    assert any("differs from its checksum" in detail for detail in details)
    assert any("cut short" in detail for detail in details)


def test_an_export_without_manifest_is_found(copy: Path) -> None:
    export(copy)
    (copy / VERSION / manifest.MANIFEST_NAME).unlink()
    assert "manifest.json does not exist" in only(findings(copy), "exported model").detail


# --- the command ------------------------------------------------------------------------------


def lint(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/doctor.py", "--lint", "--project", str(project), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_exits_0_on_the_repository(copy: Path) -> None:
    done = lint(copy)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_command_exits_1_with_one_line_of_cause_and_fix(copy: Path) -> None:
    (copy / LABELS).unlink()
    done = lint(copy)
    assert done.returncode == 1
    assert done.stdout.startswith("problem: resnet50_postprocess version 1 would refuse to load")
    assert done.stdout.count("\n") == 1


def test_the_command_prints_json(copy: Path) -> None:
    found = json.loads(lint(copy, "--json").stdout)
    assert {entry["status"] for entry in found} == {"ok", "not applicable"}
    assert set(found[0]) == {"check", "status", "detail", "fix"}


def test_a_folder_that_is_no_checkout_is_a_usage_error(tmp_path: Path) -> None:
    done = lint(tmp_path)
    assert done.returncode == 2
    assert "no model_repository" in done.stderr
