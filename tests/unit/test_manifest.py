"""common/manifest.py: reading, comparing recipes, and publishing that survives a crash."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common import manifest
from common.manifest import ManifestError, Recipe

PIXELS = Recipe(232, 224, "shortest_edge", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), True)
FLOATS = dataclasses.replace(PIXELS, normalised_in_graph=False)


def document(model: bytes = b"model", **more: Any) -> dict[str, Any]:
    import hashlib

    return {
        "schema": 1,
        "pipeline": "resnet50",
        "weights": {"name": "random:0", "sha256": "00"},
        "meaningful": False,
        "recipe": PIXELS.to_json(),
        "onnx": {"sha256": hashlib.sha256(model).hexdigest()},
        **more,
    }


def version_folder(folder: Path, model: bytes = b"model", **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    manifest.write(document(model, **more), folder / "manifest.json")
    return folder


def test_a_written_manifest_reads_back_from_its_folder_and_from_its_file(tmp_path: Path) -> None:
    folder = version_folder(tmp_path)
    assert manifest.read(folder) == document()
    assert manifest.read(folder / "manifest.json") == document()


def test_a_missing_manifest_says_to_export_first(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="does not exist: export the model first"):
        manifest.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": 2}', '{"pipeline": "x"}'])
def test_a_foreign_or_broken_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ManifestError, match=r"manifest\.json is not"):
        manifest.read(tmp_path)


@pytest.mark.parametrize("key", ["pipeline", "weights", "meaningful", "recipe", "onnx"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    content = document()
    del content[key]
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(ManifestError, match=f"lacks {key}"):
        manifest.read(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.binary(max_size=64))
def test_no_bytes_make_reading_fail_otherwise(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(ManifestError):
        manifest.read(tmp_path)


def test_a_recipe_survives_json() -> None:
    assert Recipe.from_json(json.loads(json.dumps(FLOATS.to_json()))) == FLOATS


@pytest.mark.parametrize(
    ("change", "says"),
    [({"crop_size": None}, "not readable"), ({"mean": "abc"}, "not readable")],
)
def test_a_broken_recipe_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError, match=says):
        manifest.recipe_of({"recipe": {**PIXELS.to_json(), **change}})


def test_a_recipe_without_a_key_names_it() -> None:
    values = PIXELS.to_json()
    del values["resize_size"]
    with pytest.raises(ManifestError, match="resize_size"):
        Recipe.from_json(values)


def test_equal_recipes_have_no_differences() -> None:
    assert PIXELS.differences(PIXELS) == []
    assert FLOATS.differences(FLOATS) == []


def test_a_wrong_resize_size_is_told_with_both_numbers() -> None:
    (text,) = PIXELS.differences(dataclasses.replace(PIXELS, resize_size=256))
    assert "256" in text
    assert "232" in text


def test_mean_and_std_count_only_where_the_graph_does_not_normalise() -> None:
    without = dataclasses.replace(PIXELS, mean=(), std=())
    assert PIXELS.differences(without) == []
    other = dataclasses.replace(FLOATS, mean=(0.5, 0.5, 0.5))
    assert len(FLOATS.differences(other)) == 1
    assert len(FLOATS.differences(dataclasses.replace(FLOATS, mean=()))) == 1


def test_means_that_differ_by_rounding_are_equal() -> None:
    rounded = dataclasses.replace(FLOATS, mean=tuple(value + 1e-9 for value in FLOATS.mean))
    assert FLOATS.differences(rounded) == []


def test_normalising_twice_is_a_difference() -> None:
    assert any("normalised_in_graph" in text for text in PIXELS.differences(FLOATS))


def test_an_intact_folder_has_no_problems(tmp_path: Path) -> None:
    folder = version_folder(tmp_path)
    assert manifest.file_problems(manifest.read(folder), folder) == []


def test_an_altered_and_a_missing_model_are_told_apart(tmp_path: Path) -> None:
    folder = version_folder(tmp_path)
    (folder / "model.onnx").write_bytes(b"other")
    assert manifest.file_problems(document(), folder) == [
        "model.onnx differs from its checksum in manifest.json"
    ]
    (folder / "model.onnx").unlink()
    assert manifest.file_problems(document(), folder) == ["model.onnx is missing"]


def test_an_engine_named_in_the_manifest_must_be_there(tmp_path: Path) -> None:
    folder = version_folder(tmp_path, plan={"sha256": "00"})
    assert manifest.file_problems(manifest.read(folder), folder) == ["model.plan is missing"]


def test_publishing_replaces_both_files_and_empties_the_staging_folder(tmp_path: Path) -> None:
    live = version_folder(tmp_path / "live", b"old")
    staged = version_folder(tmp_path / "staged", b"new")
    manifest.publish([staged / "model.onnx", staged / "manifest.json"], live)
    assert (live / "model.onnx").read_bytes() == b"new"
    assert manifest.file_problems(manifest.read(live), live) == []
    assert list(staged.iterdir()) == []


KILLED_BETWEEN = """
import os, signal, sys
from pathlib import Path
from common import manifest
staged, live, survive = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
replace = os.replace
def killing(source, target):
    global survive
    if survive == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    survive -= 1
    replace(source, target)
os.replace = killing
manifest.publish([staged / "model.onnx", staged / "manifest.json"], live)
"""


@pytest.mark.parametrize("renames_before", [0, 1])
def test_a_killed_publication_leaves_whole_files_and_shows(
    tmp_path: Path, renames_before: int
) -> None:
    live = version_folder(tmp_path / "live", b"old" * 1000)
    staged = version_folder(tmp_path / "staged", b"new" * 1000)
    command = [sys.executable, "-c", KILLED_BETWEEN, staged, live, str(renames_before)]
    assert subprocess.run(command, check=False).returncode == -9
    expected = (b"new" if renames_before else b"old") * 1000
    assert (live / "model.onnx").read_bytes() == expected
    problems = manifest.file_problems(manifest.read(live), live)
    assert bool(problems) == bool(renames_before)


def test_publishing_to_another_file_system_still_ends_in_a_rename(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    staged = Path(tempfile.mkdtemp(prefix="manifest-test-", dir=memory))
    try:
        version_folder(staged, b"new")
        live = version_folder(tmp_path / "live", b"old")
        manifest.publish([staged / "model.onnx", staged / "manifest.json"], live)
        assert manifest.file_problems(manifest.read(live), live) == []
        assert sorted(os.listdir(live)) == ["manifest.json", "model.onnx"]
    finally:
        shutil.rmtree(staged)


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    waiting, entered = threading.Event(), threading.Event()

    def second() -> None:
        with manifest.exclusive(tmp_path, on_wait=waiting.set):
            entered.set()

    with manifest.exclusive(tmp_path, on_wait=pytest.fail):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(5)
        assert not entered.is_set()
    thread.join(5)
    assert entered.is_set()
    assert list(tmp_path.iterdir()) == []


def test_staging_lies_outside_the_folder_and_forgets_a_killed_run(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "model" / "1"
    folder.mkdir(parents=True)
    with manifest.staging(folder, tmp_path) as first:
        assert tmp_path / ".staging" in first.parents
        kept = first
    kept.mkdir(parents=True)
    (kept / "half a model").touch()
    with manifest.staging(folder, tmp_path) as second:
        assert second == kept
        assert list(second.iterdir()) == []
    assert not kept.exists()


def test_staging_in_a_read_only_project_lies_inside_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with manifest.staging(tmp_path, Path("/")) as place:
        assert place.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
