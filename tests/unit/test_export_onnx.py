"""scripts/export_onnx.py: the served graph equals PyTorch, and what is published is whole.

The real ResNet50 is exported once, as a user would. How publishing behaves is tested with a small
network in its place, since that does not depend on the network.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torchvision.models import ResNet50_Weights, resnet50
from torchvision.transforms.functional import center_crop, resize

import export_onnx
from common import manifest
from exporting import graph, parity, weights
from exporting.weights import DownloadError, WeightsError

SCRIPT = Path(export_onnx.__file__)


def run_script(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version folder with the real network, made by the command line."""
    folder = tmp_path_factory.mktemp("export") / "1"
    done = run_script("--weights", "random:0", "--output", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == manifest.read(folder)
    return folder


def test_one_file_and_its_manifest_are_published(exported: Path) -> None:
    assert sorted(os.listdir(exported)) == ["manifest.json", "model.onnx"]
    assert manifest.file_problems(manifest.read(exported), exported) == []


def test_the_manifest_says_what_was_exported_and_how_well(exported: Path) -> None:
    made = manifest.read(exported)
    model = onnx.load(str(exported / "model.onnx"))
    assert made["pipeline"] == "resnet50"
    assert made["weights"]["name"] == "random:0"
    assert made["meaningful"] is False
    assert made["recipe"]["resize_size"] == 232
    assert made["recipe"]["normalised_in_graph"] is True
    assert made["onnx"]["opset"] == model.opset_import[0].version == 20
    assert made["onnx"]["ir_version"] == model.ir_version
    assert made["onnx"]["bytes"] == (exported / "model.onnx").stat().st_size
    assert made["tools"]["torch"] == torch.__version__.partition("+")[0]
    assert made["parity"]["cosine_min"] >= 0.9999
    # Noise in batches of 1, 2 and 5, and six photographs.
    assert made["parity"]["images"] == 14
    assert made["parity"]["photographs"] == 6


def test_the_graph_takes_uint8_nhwc_in_any_batch_and_gives_float_logits(exported: Path) -> None:
    session = onnxruntime.InferenceSession(str(exported / "model.onnx"))
    (image,), (logits,) = session.get_inputs(), session.get_outputs()
    assert (image.name, image.type, image.shape[1:]) == ("input", "tensor(uint8)", [224, 224, 3])
    assert (logits.name, logits.type, logits.shape[1:]) == ("output", "tensor(float)", [1000])
    assert isinstance(image.shape[0], str)
    for batch in (1, 3):
        rows = session.run(None, {"input": np.zeros((batch, 224, 224, 3), np.uint8)})[0]
        assert rows.shape == (batch, 1000)


def test_the_graph_is_free_of_shape_arithmetic_and_of_machine_paths(exported: Path) -> None:
    file = exported / "model.onnx"
    kinds = [node.op_type for node in onnx.load(str(file)).graph.node]
    assert kinds[:5] == ["Cast", "Sub", "Mul", "Transpose", "Conv"]
    assert not {"Shape", "Range", "Gather", "BatchNormalization"} & set(kinds)
    content = file.read_bytes()
    assert str(SCRIPT.parent.parent).encode() not in content
    assert b"site-packages" not in content


def test_photographs_get_the_logits_of_torchvision_and_pytorch(exported: Path) -> None:
    torch.manual_seed(0)
    network = resnet50(weights=None).eval()
    transform = ResNet50_Weights.IMAGENET1K_V2.transforms()
    session = onnxruntime.InferenceSession(str(exported / "model.onnx"))
    for _, picture in parity.photographs():
        with torch.inference_mode():
            expected = network(transform(picture)[None]).numpy()[0]
        pixels = np.array(center_crop(resize(picture, [232], antialias=True), [224]))
        found = session.run(None, {"input": pixels[None]})[0][0]
        cosine = found @ expected / np.linalg.norm(found) / np.linalg.norm(expected)
        assert cosine >= 0.9999
        assert list(found.argsort()[-5:]) == list(expected.argsort()[-5:])


def test_a_second_run_is_up_to_date_without_loading_pytorch(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('PyTorch was imported')")
    before = (exported / "model.onnx").stat().st_mtime_ns
    done = run_script("--weights", "random:0", "--output", exported, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "up to date" in done.stderr
    assert "random:0" in done.stdout
    assert (exported / "model.onnx").stat().st_mtime_ns == before


def test_help_ends_with_an_example() -> None:
    done = run_script("--help")
    assert done.returncode == 0
    assert "python scripts/export_onnx.py" in done.stdout.split("example:")[1]


# From here on: a small network in the place of ResNet50.


class SmallNetwork(nn.Module):
    """1,000 logits from the mean colour of a normalised image."""

    def __init__(self, seed: int, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.head = nn.Linear(3, 1000)
        self.factor = factor

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(image.mean(dim=(2, 3))) * self.factor


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the 25 million parameters; everything around them is real."""

    def build(source: weights.Source) -> tuple[nn.Module, str]:
        return SmallNetwork(source.seed or 0).eval(), source.sha256 or f"seed{source.seed}"

    monkeypatch.setattr(graph, "build_resnet50", build)


@pytest.fixture(scope="session")
def small_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published small network; copy it before changing it."""
    folder = tmp_path_factory.mktemp("small") / "1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "build_resnet50", lambda _: (SmallNetwork(0).eval(), "seed0"))
        assert export_onnx.main(["--weights", "random:0", "--output", str(folder)]) == 0
    return folder


@pytest.fixture
def folder(small: None, small_export: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_export, tmp_path / "model_repository" / "m" / "1"))


def export(folder: Path, *arguments: str, weights_name: str = "random:0") -> int:
    return export_onnx.main(["--weights", weights_name, "--output", str(folder), *arguments])


def test_an_unchanged_folder_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(folder) == 0
    assert "up to date" in capsys.readouterr().err


def tamper(folder: Path) -> None:
    content = bytearray((folder / "model.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "model.onnx").write_bytes(content)


def truncate(folder: Path) -> None:
    os.truncate(folder / "model.onnx", 100)


def lose_model(folder: Path) -> None:
    (folder / "model.onnx").unlink()


def lose_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def break_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


def job(folder: Path, name: str = "random:0", opset: int = 20) -> export_onnx.Job:
    return export_onnx.Job(weights.parse(name), folder, opset)


def add_plan(folder: Path) -> None:
    (folder / "model.plan").write_bytes(b"engine")
    plan = {"sha256": manifest.sha256_of(folder / "model.plan")}
    manifest.write({**manifest.read(folder), "plan": plan}, folder / "manifest.json")


@pytest.mark.parametrize("harm", [tamper, truncate, lose_model, lose_manifest, break_manifest])
def test_a_harmed_folder_does_not_count_as_published(folder: Path, harm: Any) -> None:
    assert export_onnx.published(job(folder)) is not None
    harm(folder)
    assert export_onnx.published(job(folder)) is None


def test_other_weights_another_opset_and_other_tools_are_not_current(folder: Path) -> None:
    made = manifest.read(folder)
    assert export_onnx.is_current(job(folder), made)
    assert export_onnx.published(job(folder, "random:1")) is None
    assert not export_onnx.is_current(job(folder, opset=19), made)
    older = {**made, "tools": {**made["tools"], "torch": "1.0"}}
    assert not export_onnx.is_current(job(folder), older)
    assert not export_onnx.is_current(job(folder), {**made, "recipe": {}})


def test_a_harmed_file_is_repaired_to_the_same_bytes_so_its_engine_stays(
    folder: Path, small_export: Path
) -> None:
    add_plan(folder)
    tamper(folder)
    assert export(folder) == 0
    assert (folder / "model.onnx").read_bytes() == (small_export / "model.onnx").read_bytes()
    assert manifest.read(folder)["plan"]["sha256"]
    assert manifest.file_problems(manifest.read(folder), folder) == []


def test_a_run_killed_between_the_two_renames_is_repaired_by_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    replace = os.replace

    def killing(source: Path, target: Path) -> None:
        if Path(target).name == "manifest.json":
            raise Killed
        replace(source, target)

    add_plan(folder)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", killing)
        export(folder, weights_name="random:1")
    assert manifest.file_problems(manifest.read(folder), folder) != []
    # The engine of the old weights went before the new weights came.
    assert not (folder / "model.plan").exists()
    assert export(folder, "--opset", "19", weights_name="random:1") == 0
    made = manifest.read(folder)
    assert manifest.file_problems(made, folder) == []
    assert (made["weights"]["name"], made["onnx"]["opset"]) == ("random:1", 19)
    assert "plan" not in made


def test_a_graph_without_usable_answers_is_not_published(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "manifest.json").read_bytes()
    broken = SmallNetwork(1, factor=float("inf")).eval()
    monkeypatch.setattr(graph, "build_resnet50", lambda _: (broken, "x"))
    assert export(folder, weights_name="random:1") == 1
    error = capsys.readouterr().err
    assert "differs from PyTorch (cosine nan" in error
    assert (folder / "manifest.json").read_bytes() == before
    assert sorted(os.listdir(folder)) == ["manifest.json", "model.onnx"]


def test_parity_needs_the_same_winner_only_where_weights_mean_something() -> None:
    reference, tested = np.array([[1.0, 1.00001]]), np.array([[1.00001, 1.0]])
    figures = parity.measure([(reference, tested)], 1)
    assert figures.top1_agreement == 0
    assert figures.max_abs_logit_diff == pytest.approx(1e-5)
    assert figures.is_good(meaningful=False)
    assert not figures.is_good(meaningful=True)


def test_parity_refuses_another_direction() -> None:
    assert not parity.measure([(np.array([[1.0, 0.1]]), np.array([[1.0, 0.2]]))], 0).is_good(
        meaningful=False
    )


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No address resolves, and nothing is cached."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    for name, published in weights.PUBLISHED.items():
        nowhere = "http://nowhere.invalid/" + str(published.url).rsplit("/", 1)[1]
        changed = weights.replace(published, url=nowhere)
        monkeypatch.setitem(weights.PUBLISHED, name, changed)


def test_no_network_says_in_one_line_what_to_do(
    folder: Path, offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(folder, weights_name="IMAGENET1K_V2") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "host name not resolved): use --weights FILE.pth, or --weights random:0" in captured.err
    assert manifest.read(folder)["weights"]["name"] == "random:0"


def test_the_fallback_is_said_in_one_line_and_is_up_to_date_afterwards(
    small: None, offline: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--fallback", "random:0"]
    assert export(tmp_path / "1", *arguments, weights_name="IMAGENET1K_V2") == 0
    captured = capsys.readouterr()
    (line,) = [text for text in captured.err.splitlines() if "could not be downloaded" in text]
    assert line.endswith("continuing with random:0, whose answers are meaningless")
    assert "meaningless" in captured.out
    assert manifest.read(tmp_path / "1")["meaningful"] is False
    assert export(tmp_path / "1", *arguments, weights_name="IMAGENET1K_V2") == 0
    assert "up to date" in capsys.readouterr().err


def test_the_fallback_never_replaces_real_weights(
    folder: Path, offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    real = {"name": "IMAGENET1K_V2", "sha256": "11ad3fa6" + "0" * 56}
    made = {**manifest.read(folder), "weights": real, "meaningful": True, "tools": {}}
    manifest.write(made, folder / "manifest.json")
    assert export(folder, "--fallback", "random:0", weights_name="IMAGENET1K_V2") == 0
    assert "kept, though made by other tool versions" in capsys.readouterr().err
    assert manifest.read(folder) == made


def test_downloaded_weights_are_exported_with_their_whole_digest(
    small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fetch(source: weights.Source) -> weights.Source:
        return weights.replace(source, file=tmp_path / "w.pth", sha256="11ad3fa6" + "f" * 56)

    monkeypatch.setattr(weights, "fetch", fetch)
    assert export(tmp_path / "1", weights_name="IMAGENET1K_V2") == 0
    made = manifest.read(tmp_path / "1")
    assert made["meaningful"] is True
    assert made["weights"] == {"name": "IMAGENET1K_V2", "sha256": "11ad3fa6" + "f" * 56}
    monkeypatch.setattr(weights, "fetch", lambda _: pytest.fail("downloaded twice"))
    assert export(tmp_path / "1", weights_name="IMAGENET1K_V2") == 0


def test_a_second_exporter_waits_and_then_finds_the_work_done(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results: list[int] = []
    with manifest.exclusive(folder, on_wait=pytest.fail):
        thread = threading.Thread(target=lambda: results.append(export(folder)))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join(10)
    assert results == [0]
    error = capsys.readouterr().err
    assert "waiting for another export" in error
    assert "up to date" in error


# Weights files.


def test_a_state_dict_and_the_training_scripts_checkpoint_load_alike(tmp_path: Path) -> None:
    torch.manual_seed(3)
    network = resnet50(weights=None)
    torch.save({"model": network.state_dict(), "epoch": 7}, tmp_path / "checkpoint.pth")
    loaded, digest = graph.build_resnet50(weights.parse(str(tmp_path / "checkpoint.pth")))
    assert digest == manifest.sha256_of(tmp_path / "checkpoint.pth")
    assert torch.equal(loaded.state_dict()["fc.weight"], network.state_dict()["fc.weight"])
    assert not loaded.training


class Exploit:
    """A pickle that runs a command when it is loaded the careless way."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploited",)


@pytest.mark.parametrize("content", [b"", b"not weights", pickle.dumps(Exploit()), b"PK\x03\x04"])
def test_a_file_that_is_no_state_dict_is_refused_in_one_line_and_runs_nothing(
    tmp_path: Path,
    content: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.pth").write_bytes(content)
    assert export(tmp_path / "1", weights_name="bad.pth") == 2
    error = [line for line in capsys.readouterr().err.splitlines() if "bad.pth is not" in line]
    assert len(error) == 1
    assert "torch.save(model.state_dict(), FILE)" in error[0]
    assert not Path("exploited").exists()
    assert list(Path("1").iterdir()) == []


@pytest.mark.parametrize(
    "state", [{"a": torch.zeros(1)}, [1], {"fc.weight": torch.zeros(10, 2048)}]
)
def test_the_weights_of_another_network_are_refused_in_one_line(
    tmp_path: Path, state: object
) -> None:
    torch.save(state, tmp_path / "other.pth")
    with pytest.raises(WeightsError, match=r"other\.pth") as caught:
        graph.build_resnet50(weights.parse(str(tmp_path / "other.pth")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [["--weights", "nothing.pth"], ["--opset", "11"], ["--fallback", "random:"], ["--surprise"]],
)
def test_a_wrong_command_line_exits_with_2(arguments: list[str], tmp_path: Path) -> None:
    try:
        code = export_onnx.main([*arguments, "--output", str(tmp_path)])
    except SystemExit as exit:
        code = int(exit.code or 0)
    assert code == 2


def test_a_download_error_is_a_weights_error() -> None:
    assert issubclass(DownloadError, WeightsError)
