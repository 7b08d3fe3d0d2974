"""The agreement report's arithmetic and gate; one crop through both ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import parity
from benchmarks.crops import Crop, crops
from benchmarks.parity import Compared
from common.manifest import ManifestError

EQUAL = Compared("native", "png", 0.5, True, 1.0, True, 0.001, 0.001, True)
DIFFERENT = replace(EQUAL, top1_equal=False, top5_overlap=0.8, opencv_top1_equal=False)
TIE = replace(DIFFERENT, margin=0.001)


def _summary(compared: list[Compared], meaningful: bool = True) -> dict:
    class Stand:
        name = "p"
        manifest = {"weights": {"name": "w"}}  # noqa: RUF012
        is_meaningful = meaningful

    return parity.summary(Stand(), compared)  # type: ignore[arg-type]


def test_near_ties_count_only_in_the_figure_that_includes_them() -> None:
    figures = _summary([EQUAL, EQUAL, EQUAL, TIE])["all"]
    assert figures["near_ties"] == 1
    assert figures["top1_percent"] == 75
    assert figures["top1_percent_without_ties"] == 100
    assert figures["top5_overlap_percent"] == 95


def test_one_bad_set_fails_the_gate_though_all_together_pass_it() -> None:
    sharp = [replace(EQUAL, set_name="sharp"), replace(DIFFERENT, set_name="sharp")]
    assert parity.passes(_summary([EQUAL] * 1000))
    assert not parity.passes(_summary([EQUAL] * 1000 + sharp))


def test_random_weights_are_no_gate() -> None:
    assert parity.passes(_summary([DIFFERENT] * 3, meaningful=False))


def test_a_crop_goes_both_ways_and_arrives_at_the_same_place() -> None:
    try:
        pipeline = parity.Pipeline("efficientnet_lite0")
    except ManifestError as error:
        pytest.fail(f"no exported model: {error}", pytrace=False)
    crop: Crop = next(iter(crops(20, seed=5)))
    compared = pipeline.compare(crop)
    assert compared.top1_equal
    assert compared.total_variation < 0.05
    served, ids = pipeline.served(crop.data)
    assert served.sum() == pytest.approx(1)
    assert ids == np.argsort(-served, kind="stable")[: parity.TOP].tolist()
