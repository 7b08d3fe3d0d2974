"""Every collected kind of input, straight through the preprocessor."""

from __future__ import annotations

import numpy as np
import pytest
from image_cases import ALL_CASES, Case
from image_cases.case import reference
from PIL import Image

from common.parameters import parse_preprocess
from common.preprocess.preprocessor import Preprocessor

CONFIG = parse_preprocess(
    {"resize_size": "232", "crop_size": "224", "jpeg_scale_gap": "0"},
    {"data_type": "TYPE_UINT8", "dims": ["224", "224", "3"]},
)
# The reference resizes the whole long side: beyond this it would take gigabytes.
REFERENCE_LIMIT_PX = 30_000_000


@pytest.fixture(scope="module")
def preprocessor():
    preprocessor = Preprocessor(CONFIG)
    yield preprocessor
    preprocessor.close()


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_the_input_gets_its_right_answer(case: Case, preprocessor: Preprocessor) -> None:
    batch, (report,) = preprocessor([case.element])
    if report.error is not None:
        assert report.error.code in case.codes, report.error.status
        assert not batch.any()
        return
    assert case.shows is not None, f"was answered, but should be one of {case.codes}"
    difference = np.abs(batch[0].astype(int) - _reference(case.shows).astype(int))
    assert difference.max() <= case.max_levels
    assert difference.mean() <= case.mean_levels


def _reference(image: Image.Image) -> np.ndarray:
    """torchvision's own arithmetic; for very thin pictures on a strip around the kept window."""
    width, height = image.size
    scale = 232 / min(width, height)
    if width * height * scale**2 <= REFERENCE_LIMIT_PX:
        return reference(image)
    horizontal = width > height
    # Long sides are truncated and the window is centred (torchvision), here on the whole picture.
    long_side = int(232 * max(width, height) / min(width, height))
    left, top = round((long_side - 224) / 2), round((232 - 224) / 2)
    step = max(width, height) / long_side
    box = [left * step, top / scale, (left + 224) * step, (top + 224) / scale]
    if not horizontal:
        box = [box[1], box[0], box[3], box[2]]
    return np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR, box=tuple(box)))
