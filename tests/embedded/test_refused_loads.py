"""Configuration faults stop the start with one line that names key, value and what is allowed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from embedded import EmbeddedError, EmbeddedServer

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The project's ResNet50 pipeline, with its model linked, free to be changed."""
    for stage in ("preprocess", "inference", "postprocess", "ensemble"):
        name = f"resnet50_{stage}"
        ignore = shutil.ignore_patterns("*.onnx", "*.plan", "__pycache__")
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=ignore)
    model = Path("resnet50_inference", "1", "model.onnx")
    (tmp_path / model).symlink_to(REPOSITORY / model)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def refusal(repository: Path) -> str:
    with pytest.raises(EmbeddedError) as error, EmbeddedServer(repository):
        pass
    return str(error.value)


def test_an_unknown_parameter_is_named(repository: Path) -> None:
    config = repository / "resnet50_preprocess" / "config.pbtxt"
    edit(config, '"crop_size"', '"crop_sizes"')
    message = refusal(repository)
    assert "crop_size" in message
    assert "whole number" in message


def test_a_value_out_of_range_is_named_with_its_range(repository: Path) -> None:
    config = repository / "resnet50_postprocess" / "config.pbtxt"
    edit(
        config, '"decimals" value: { string_value: "4" }', '"decimals" value: { string_value: "9" }'
    )
    message = refusal(repository)
    assert all(word in message for word in ("decimals", "'9'", "from 0 to 7"))


def test_a_recipe_that_the_weights_were_not_made_for_is_refused(repository: Path) -> None:
    manifest = json.loads((repository / "resnet50_inference" / "1" / "manifest.json").read_text())
    trained = str(manifest["recipe"]["resize_size"])
    config = repository / "resnet50_preprocess" / "config.pbtxt"
    edit(config, f'string_value: "{trained}"', 'string_value: "300"')
    message = refusal(repository)
    assert all(word in message for word in ("resize_size", "300", trained))


def test_one_label_too_many_is_refused_with_both_numbers(repository: Path) -> None:
    labels = repository / "resnet50_postprocess" / "1" / "labels_en.json"
    names = json.loads(labels.read_text(encoding="utf-8"))
    labels.write_text(json.dumps(["background", *names]), encoding="utf-8")
    message = refusal(repository)
    assert all(word in message for word in ("labels_en.json", "1001", "1000"))


def test_a_refused_load_shows_no_traceback(repository: Path) -> None:
    config = repository / "resnet50_preprocess" / "config.pbtxt"
    edit(config, '"JPEG,PNG,WEBP,GIF,BMP,TIFF"', '"JPEG,HEIC"')
    message = refusal(repository)
    assert "formats" in message
    assert "Traceback" not in message
