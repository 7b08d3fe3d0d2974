"""scripts/new_pipeline.py: four folders that load, or one clear line and nothing written."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tritonclient.grpc import model_config_pb2

import new_pipeline
from common import manifest
from common.parameters import parse_preprocess
from common.preprocess.preprocessor import Preprocessor
from scaffold import configs

REPOSITORY = new_pipeline.DEFAULT_REPOSITORY
STAGES = ("preprocess", "inference", "postprocess", "ensemble")
RECIPE = ["--resize", "256", "--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25"]


def classifier(
    path: Path,
    *,
    pixels: bool = False,
    classes: int = 4,
    names: tuple[str, str] = ("image", "scores"),
    batch: int | str = "batch",
    side: int | str = 64,
    last: str | None = None,
) -> Path:
    """Mean colour times a matrix: the smallest graph with a classifier's inputs and outputs."""
    shape = [batch, side, side, 3] if pixels else [batch, 3, side, side]
    kind = TensorProto.UINT8 if pixels else TensorProto.FLOAT
    nodes, image = [], names[0]
    if pixels:
        nodes.append(helper.make_node("Cast", [image], ["floats"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Transpose", ["floats"], ["planes"], perm=[0, 3, 1, 2]))
        image = "planes"
    logits = names[1] if last is None else "logits"
    nodes += [
        helper.make_node("GlobalAveragePool", [image], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["colours"]),
        helper.make_node("Gemm", ["colours", "matrix"], [logits]),
    ]
    if last is not None:
        nodes.append(helper.make_node(last, ["logits"], [names[1]]))
    matrix = np.arange(3 * classes, dtype=np.float32).reshape(3, classes)
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(names[0], kind, shape)],
        [helper.make_tensor_value_info(names[1], TensorProto.FLOAT, [batch, classes])],
        [numpy_helper.from_array(matrix, "matrix")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def labels(path: Path, count: int = 4) -> Path:
    path.write_text(json.dumps([f"class {index}" for index in range(count)]))
    return path


def white_png() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (300, 280), "white").save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with model.onnx, en.json and an empty repository; the working directory."""
    monkeypatch.chdir(tmp_path)
    classifier(tmp_path / "net.onnx")
    labels(tmp_path / "en.json")
    (tmp_path / "repository").mkdir()
    return tmp_path


def create(*arguments: str, name: str = "small", file: str = "net.onnx") -> int:
    places = ["--onnx", file, "--labels", "en.json", "--repository", "repository"]
    return new_pipeline.main([name, *places, *arguments])


def config(model: str, file: str = "config.pbtxt", repository: Path | str = "repository") -> Any:
    text = (Path(repository) / model / file).read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def content(repository: Path = Path("repository")) -> dict[str, bytes]:
    files = (path for path in repository.rglob("*") if path.is_file())
    return {str(path.relative_to(repository)): path.read_bytes() for path in files}


def test_a_float_classifier_gets_four_models_with_its_own_recipe(place: Path) -> None:
    assert create(*RECIPE) == 0
    assert sorted(os.listdir("repository")) == sorted(f"small_{stage}" for stage in STAGES)
    preprocess = config("small_preprocess")
    image = next(tensor for tensor in preprocess.output if tensor.name == "PREPROCESSED_IMAGE")
    assert (image.data_type, list(image.dims)) == (model_config_pb2.TYPE_FP32, [3, 64, 64])
    values = {key: value.string_value for key, value in preprocess.parameters.items()}
    assert (values["resize_size"], values["crop_size"]) == ("256", "64")
    assert values["mean"] == "0.5,0.5,0.5"
    assert values["std"] == "0.25,0.25,0.25"
    postprocess = config("small_postprocess")
    logits = next(tensor for tensor in postprocess.input if tensor.name == "LOGITS")
    assert list(logits.dims) == [4]
    assert "group_file" not in postprocess.parameters
    assert json.loads(postprocess.parameters["label_files"].string_value) == {
        "en": "labels_en.json"
    }


def test_the_preprocess_code_accepts_the_recipe_and_normalises_with_it(place: Path) -> None:
    assert create(*RECIPE) == 0
    written = config("small_preprocess")
    preprocessor = Preprocessor(
        parse_preprocess(configs.parameters_of(written), configs.image_output_of(written))
    )
    try:
        batch, reports = preprocessor([white_png()])
    finally:
        preprocessor.close()
    assert reports[0].error is None
    assert batch.shape == (1, 3, 64, 64)
    assert np.allclose(batch, (1 - 0.5) / 0.25, atol=1e-5)


def test_a_pixel_classifier_gets_uint8_images_and_no_mean(place: Path) -> None:
    classifier(place / "net.onnx", pixels=True)
    assert create("--resize", "70") == 0
    image = next(t for t in config("small_preprocess").output if t.name == "PREPROCESSED_IMAGE")
    assert (image.data_type, list(image.dims)) == (model_config_pb2.TYPE_UINT8, [64, 64, 3])
    assert not {"mean", "std"} & set(config("small_preprocess").parameters)
    assert manifest.read(Path("repository/small_inference/1"))["recipe"]["normalised_in_graph"]


@pytest.mark.parametrize("file", ["config.pbtxt", "configs/cpu.pbtxt", "configs/tensorrt.pbtxt"])
def test_every_inference_configuration_carries_the_graphs_own_tensors(
    place: Path, file: str
) -> None:
    assert create(*RECIPE) == 0
    inference, template = (
        config("small_inference", file),
        config("resnet50_inference", file, REPOSITORY),
    )
    assert inference.name == "small_inference"
    assert (inference.input[0].name, list(inference.input[0].dims)) == ("image", [3, 64, 64])
    assert inference.input[0].data_type == model_config_pb2.TYPE_FP32
    assert (inference.output[0].name, list(inference.output[0].dims)) == ("scores", [4])
    assert inference.backend == template.backend
    assert inference.max_batch_size == template.max_batch_size
    assert inference.instance_group == template.instance_group


def test_the_ensemble_joins_the_four_models_by_their_tensors(place: Path) -> None:
    assert create(*RECIPE) == 0
    steps = config("small_ensemble").ensemble_scheduling.step
    assert [step.model_name for step in steps] == [
        "small_preprocess",
        "small_inference",
        "small_postprocess",
    ]
    assert dict(steps[1].input_map) == {"image": "preprocessed_image"}
    assert dict(steps[1].output_map) == {"scores": "logits"}
    for step in steps:
        model = config(step.model_name)
        assert set(step.input_map) == {tensor.name for tensor in model.input}
        assert set(step.output_map) == {tensor.name for tensor in model.output}


def test_nothing_but_names_differs_from_resnet50_where_the_classifier_is_alike(
    place: Path,
) -> None:
    classifier(place / "net.onnx", pixels=True, classes=1000, side=224, names=("input", "output"))
    labels(place / "en.json", 1000)
    labels(place / "zh.json", 1000)
    groups = REPOSITORY / "resnet50_postprocess" / "1" / "groups.json"
    assert create("--resize", "232", "--labels", "zh=zh.json", "--groups", str(groups)) == 0
    for template in REPOSITORY.glob("resnet50_*/**/*.pbtxt"):
        relative = template.relative_to(REPOSITORY)
        text = template.read_text(encoding="utf-8").replace("resnet50_", "small_")
        expected = text_format.Parse(text, model_config_pb2.ModelConfig())
        model, file = str(relative.parts[0]).replace("resnet50_", "small_"), relative.parts[1:]
        assert config(model, str(Path(*file))) == expected


def test_the_python_adapters_are_resnet50s_byte_for_byte(place: Path) -> None:
    assert create(*RECIPE) == 0
    for stage in ("preprocess", "postprocess"):
        written = Path(f"repository/small_{stage}/1/model.py").read_bytes()
        assert written == (REPOSITORY / f"resnet50_{stage}" / "1" / "model.py").read_bytes()


def test_a_changed_limit_in_the_template_reaches_the_new_pipeline(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = place / "templates"
    shutil.copytree(REPOSITORY, templates, ignore=shutil.ignore_patterns("*.onnx", "*.plan"))
    file = templates / "resnet50_preprocess" / "config.pbtxt"
    file.write_text(
        file.read_text().replace(
            '"max_bytes" value: { string_value: "33554432"',
            '"max_bytes" value: { string_value: "1234"',
        )
    )
    monkeypatch.setattr(new_pipeline, "DEFAULT_REPOSITORY", templates)
    assert create(*RECIPE) == 0
    assert config("small_preprocess").parameters["max_bytes"].string_value == "1234"


def test_the_manifest_names_the_file_and_its_checksum(place: Path) -> None:
    assert create(*RECIPE) == 0
    folder = Path("repository/small_inference/1")
    made = manifest.read(folder)
    assert manifest.file_problems(made, folder) == []
    assert made["pipeline"] == "small"
    assert made["weights"] == {"name": "net.onnx", "sha256": made["onnx"]["sha256"]}
    assert (made["onnx"]["opset"], made["onnx"]["ir_version"]) == (17, 8)
    assert made["recipe"]["std"] == [0.25, 0.25, 0.25]


def sidecar(place: Path, **recipe: Any) -> None:
    values = {
        "resize_size": 80,
        "crop_size": 64,
        "resize_mode": "shortest_edge",
        "mean": [0.1, 0.2, 0.3],
        "std": [0.4, 0.5, 0.6],
        "normalised_in_graph": False,
        **recipe,
    }
    document = {
        "pipeline": "net",
        "weights": {"name": "w.pth", "sha256": "ab"},
        "meaningful": False,
        "recipe": values,
        "onnx": {"sha256": manifest.sha256_of(place / "net.onnx")},
        "plan": {"sha256": "cd"},
    }
    manifest.write(document, place / "net.json")


def test_an_exports_manifest_supplies_recipe_and_weights_and_options_override_it(
    place: Path,
) -> None:
    sidecar(place)
    assert create("--resize", "96") == 0
    made = manifest.read(Path("repository/small_inference/1"))
    assert made["recipe"]["resize_size"] == 96
    assert made["recipe"]["mean"] == [0.1, 0.2, 0.3]
    assert made["weights"]["name"] == "w.pth"
    assert made["meaningful"] is False
    assert "plan" not in made


def test_the_manifest_of_another_file_is_not_used(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sidecar(place)
    classifier(place / "net.onnx", names=("other", "scores"))
    assert create() == 2
    assert "give --mean and --std" in capsys.readouterr().err


def test_several_languages_and_groups_are_copied_and_the_first_is_the_default(
    place: Path,
) -> None:
    labels(place / "zh.json")
    group = {"warm": {"class_ids": [0, 3], "labels": {"en": "warm", "zh": "暖"}}}
    (place / "groups.json").write_text(json.dumps(group))
    assert create(*RECIPE, "--labels", "zh=zh.json", "--groups", "groups.json") == 0
    parameters = configs.parameters_of(config("small_postprocess"))
    assert parameters["default_language"] == "en"
    assert parameters["group_file"] == "groups.json"
    version = Path("repository/small_postprocess/1")
    assert {"labels_en.json", "labels_zh.json", "groups.json"} <= set(os.listdir(version))


def external_data(place: Path) -> None:
    model = onnx.load(str(place / "net.onnx"))
    onnx.save_model(
        model,
        str(place / "net.onnx"),
        save_as_external_data=True,
        location="side.bin",
        size_threshold=0,
    )


def too_new(place: Path) -> None:
    model = onnx.load(str(place / "net.onnx"))
    model.ir_version = 99
    (place / "net.onnx").write_bytes(model.SerializeToString())


def two_inputs(place: Path) -> None:
    model = onnx.load(str(place / "net.onnx"))
    model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1]))
    onnx.save(model, str(place / "net.onnx"))


def bad_group(place: Path) -> None:
    group = {"x": {"class_ids": [4], "labels": {"en": "x"}}}
    (place / "groups.json").write_text(json.dumps(group))


Change = Callable[[Path], object]


@pytest.mark.parametrize(
    ("change", "arguments", "says"),
    [
        (lambda p: labels(p / "en.json", 5), RECIPE, "5 names"),
        (lambda p: (p / "en.json").write_text("{}"), RECIPE, "JSON list"),
        (lambda p: (p / "en.json").unlink(), RECIPE, "en.json"),
        (lambda p: (p / "net.onnx").unlink(), RECIPE, "net.onnx does not exist"),
        (lambda p: (p / "net.onnx").write_bytes(b"no graph"), RECIPE, "is not an ONNX file"),
        (lambda p: (p / "net.onnx").write_bytes(b""), RECIPE, "is not an ONNX file"),
        (external_data, RECIPE, "external_data=False"),
        (too_new, RECIPE, "IR version: 99, max supported IR version"),
        (two_inputs, RECIPE, "image, mask"),
        (bad_group, [*RECIPE, "--groups", "groups.json"], "class ids from 0 to 3"),
        (lambda p: classifier(p / "net.onnx", batch=1), RECIPE, "fixed batch of 1"),
        (lambda p: classifier(p / "net.onnx", last="Softmax"), RECIPE, "Softmax"),
        (lambda p: classifier(p / "net.onnx", last="Sigmoid"), RECIPE, "Sigmoid"),
        (lambda p: classifier(p / "net.onnx", side="side"), RECIPE, "--crop"),
        (lambda p: classifier(p / "net.onnx", pixels=True), RECIPE, "leave out --mean"),
        (None, ["--resize", "256"], "give --mean and --std"),
        (None, RECIPE[2:], "give --resize"),
        (None, ["--resize", "32", *RECIPE[2:]], "at least crop_size (64)"),
        (None, [*RECIPE, "--crop", "224"], "does not fit input 'image' of 64 px"),
        (None, [*RECIPE[:4], "--std", "58,57,57"], "divide 0..255 values by 255"),
        (None, [*RECIPE[:4], "--std", "0,0,0"], "std"),
        (None, [*RECIPE, "--labels", "en.json"], "names a language twice"),
        (None, [*RECIPE, "--output-name", "features"], "scores"),
        (None, [*RECIPE, "--repository", "nowhere"], "nowhere"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_and_nothing_is_written(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    change: Change | None,
    arguments: list[str],
    says: str,
) -> None:
    if change:
        change(place)
    assert create(*arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(Path("repository").iterdir()) == []


@pytest.mark.parametrize("name", ["", "Upper", "a__b", "a-b", "../up", "a/b", "1st", "a_"])
def test_a_name_that_triton_or_a_file_system_dislikes_is_refused(place: Path, name: str) -> None:
    with pytest.raises(SystemExit) as caught:
        create(*RECIPE, name=name)
    assert caught.value.code == 2


def test_the_template_is_never_replaced(place: Path) -> None:
    assert create(*RECIPE, "--force", name="resnet50") == 2


def test_dynamic_sides_take_the_crop_asked_for(place: Path) -> None:
    classifier(place / "net.onnx", side="side")
    assert create(*RECIPE, "--crop", "96") == 0
    assert list(config("small_inference").input[0].dims) == [3, 96, 96]


def test_the_same_command_again_changes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(*RECIPE) == 0
    inference = Path("repository/small_inference/1")
    (inference / "model.plan").write_bytes(b"engine")
    manifest.write(
        {**manifest.read(inference), "plan": {"sha256": "x"}}, inference / "manifest.json"
    )
    before = content()
    capsys.readouterr()
    assert create(*RECIPE) == 0
    assert "up to date" in capsys.readouterr().err
    assert content() == before


def test_another_pipeline_of_that_name_is_replaced_only_by_force(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(*RECIPE) == 0
    before = content()
    other = ["--resize", "300", *RECIPE[2:]]
    assert create(*other) == 2
    assert "--force" in capsys.readouterr().err
    assert content() == before
    assert create(*other, "--force") == 0
    assert config("small_preprocess").parameters["resize_size"].string_value == "300"


def test_somebodys_own_folder_of_that_name_is_not_touched(place: Path) -> None:
    Path("repository/small_preprocess").mkdir()
    Path("repository/small_preprocess/notes.txt").write_text("mine")
    assert create(*RECIPE) == 2
    assert content() == {"small_preprocess/notes.txt": b"mine"}


@pytest.mark.parametrize("failing", range(1, 5))
def test_a_failing_move_puts_everything_back(
    place: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    assert create(*RECIPE) == 0
    before = content()
    rename, calls = os.rename, []

    def flaky(source: Path, target: Path) -> None:
        calls.append(target)
        # The first four calls take the old folders out.
        if len(calls) == 4 + failing:
            raise OSError("disk full")
        rename(source, target)

    monkeypatch.setattr(os, "rename", flaky)
    assert create("--resize", "300", *RECIPE[2:], "--force") == 2
    assert content() == before


KILLED = """
import os, sys
import new_pipeline
rename, left = os.rename, int(sys.argv[1])
def dying(source, target):
    global left
    if left == 0:
        os._exit(9)
    left -= 1
    rename(source, target)
os.rename = dying
new_pipeline.main(sys.argv[2:])
"""


@pytest.mark.parametrize("moves_before", [1, 3])
def test_a_killed_run_is_completed_by_the_next_one(place: Path, moves_before: int) -> None:
    arguments = ["small", "--onnx", "net.onnx", "--labels", "en.json", *RECIPE]
    arguments += ["--repository", "repository"]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(moves_before), *arguments],
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(new_pipeline.__file__).parent)},
    )
    assert done.returncode == 9
    assert len(os.listdir("repository")) == moves_before
    assert new_pipeline.main(arguments) == 0
    assert len(os.listdir("repository")) == 4
    assert not any((place / ".staging").iterdir())


def test_json_output_is_for_machines(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert create(*RECIPE, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["models"] == [f"small_{stage}" for stage in STAGES]
    assert printed["classes"] == 4
    assert printed["input"] == "FP32 CHW"


def test_help_ends_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        new_pipeline.main(["--help"])
    assert caught.value.code == 0
    assert "python scripts/new_pipeline.py flowers" in capsys.readouterr().out
