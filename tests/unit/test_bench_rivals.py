"""The paths that preprocessing is compared with do what they are said to do."""

from __future__ import annotations

import numpy as np
from image_cases.case import encoded, reference, scene

from benchmarks import crops, pictures, rivals, tutorial
from common.manifest import Recipe

RECIPE = Recipe(232, 224, "shortest_edge", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), True)


def _levels(normalised: np.ndarray) -> np.ndarray:
    mean, std = np.array(RECIPE.mean), np.array(RECIPE.std)
    return (normalised.transpose(1, 2, 0) * std + mean) * 255


def test_torchvision_s_path_is_its_own_preset() -> None:
    image = scene(500, 375)
    tensor = rivals.torchvision(RECIPE)(encoded(image, "PNG")).numpy()
    assert np.abs(_levels(tensor) - reference(image)).max() < 0.01


def test_opencv_s_path_gives_the_same_picture_without_antialiasing() -> None:
    # At the recipe's own size nothing is resized: the paths must agree to the level.
    image = scene(300, 232)
    tensor = tutorial.opencv(RECIPE)(encoded(image, "PNG"))
    assert tensor.shape == (3, 224, 224)
    assert tensor.dtype == np.float32
    assert np.abs(_levels(tensor) - reference(image)).max() < 0.01


def test_opencv_s_path_differs_where_antialiasing_matters() -> None:
    image = scene(1500, 1200)
    tensor = tutorial.opencv(RECIPE)(encoded(image, "PNG"))
    assert np.abs(_levels(tensor) - reference(image)).mean() > 1


def test_pictures_have_the_sizes_that_tables_name() -> None:
    for size, format_name in (("in500", "jpeg"), ("hd1080", "webp")):
        kind = pictures.picture_set(size, format_name, count=1)
        decoded = pictures.Image.open(pictures.io.BytesIO(kind.files[0]))
        assert decoded.size == pictures.SIZES_PX[size]
        assert decoded.format == format_name.upper()


def test_crops_are_the_same_for_the_same_seed_and_of_every_set() -> None:
    first, again = list(crops.crops(20, seed=3)), list(crops.crops(20, seed=3))
    assert [crop.data for crop in first] == [crop.data for crop in again]
    assert {crop.set_name for crop in first} == {"native", "hd1080", "sharp", "mp12"}
    assert len({crop.kind for crop in first}) > 10
