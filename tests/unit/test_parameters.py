"""config.pbtxt parameters: what is read, and the line that a wrong one leaves."""

from __future__ import annotations

import json

import pytest

from common.errors import ConfigurationError
from common.parameters import parse_postprocess, parse_preprocess

UINT8 = {"data_type": "TYPE_UINT8", "dims": ["224", "224", "3"]}
FP32 = {"data_type": "TYPE_FP32", "dims": ["3", "224", "224"]}
RECIPE = {"resize_size": "232", "crop_size": "224"}
NORMAL = {"mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225"}
LABELS = {"label_files": json.dumps({"en": "labels_en.json"})}


def test_defaults_are_those_of_the_design() -> None:
    config = parse_preprocess(RECIPE, UINT8)
    assert (config.max_pixels, config.max_bytes) == (64 * 1024**2, 32 * 1024**2)
    assert config.formats == ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
    assert config.background == (255, 255, 255)
    assert config.resize_mode == "shortest_edge"
    assert config.mean is None


def test_float_output_takes_mean_and_std() -> None:
    config = parse_preprocess(RECIPE | NORMAL, FP32)
    assert config.mean == (0.485, 0.456, 0.406)


@pytest.mark.parametrize(
    ("change", "output", "words"),
    [
        ({"resize_size": "abc"}, UINT8, ("resize_size", "'abc'", "whole number")),
        ({"resize_size": "200"}, UINT8, ("resize_size", "200", "crop_size")),
        ({"resize_mode": "squash"}, UINT8, ("resize_mode", "squash", "letterbox")),
        ({"resize_mode": "letterbox"}, UINT8, ("resize_size", "232", "at most")),
        ({"rezise": "1"}, UINT8, ("rezise", "'1'", "resize_size")),
        ({"formats": "JPEG,AVIF"}, UINT8, ("formats", "AVIF", "WEBP")),
        ({"background": "255,255"}, UINT8, ("background", "255,255", "three")),
        ({"background": "256,0,0"}, UINT8, ("background", "256", "255")),
        ({"max_pixels": "0"}, UINT8, ("max_pixels", "'0'", "1")),
        ({"jpeg_scale_gap": "-1"}, UINT8, ("jpeg_scale_gap", "-1", "64")),
        (NORMAL, UINT8, ("mean", "graph normalises")),
        ({}, FP32, ("mean", "None", "no default")),
        (NORMAL | {"std": "0,1,1"}, FP32, ("std", "0,1,1", "three numbers")),
        (NORMAL | {"mean": "nan,0,0"}, FP32, ("mean", "nan")),
        ({}, {"data_type": "TYPE_UINT8", "dims": [3, 224, 224]}, ("PREPROCESSED_IMAGE", "224, 3")),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(change, output, words) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_preprocess(RECIPE | change, output)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"top_k": "101"}, ("top_k", "101", "100")),
        ({"threshold": "1.5"}, ("threshold", "1.5", "0.0 to 1.0")),
        ({"layout": "rows"}, ("layout", "rows", "columns")),
        ({"field_case": "kebab"}, ("field_case", "camel")),
        ({"decimals": "8"}, ("decimals", "8", "7")),
        ({"default_language": "de"}, ("default_language", "de", "en")),
        ({"label_files": "[]"}, ("label_files", "[]")),
        ({"label_files": '{"en": "../labels.json"}'}, ("label_files", "..")),
        ({"group_file": "/etc/passwd"}, ("group_file", "version folder")),
        ({"topk": "5"}, ("topk", "top_k")),
    ],
)
def test_a_wrong_business_rule_is_named_with_what_is_allowed(change, words) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_postprocess(LABELS | change)
    assert all(word in str(error.value) for word in words), error.value
