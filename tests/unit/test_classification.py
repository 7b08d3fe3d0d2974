"""Softmax, groups, threshold, top-k, languages and the JSON text, checked by arithmetic."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from common.errors import ConfigurationError, InvalidModelOutput, RequestError
from common.parameters import parse_postprocess
from common.postprocess.classification import Merge, rank, softmax
from common.postprocess.labels import Group
from common.postprocess.postprocessor import Postprocessor

NAMES = {"en": ["tench", "cat", "dog", "wolf"], "zh": ["丁鲷", "猫", "狗", "狼"]}
GROUPS = {"canine": {"class_ids": [2, 3], "labels": {"en": "canine", "zh": "犬科"}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for language, names in NAMES.items():
        (tmp_path / f"{language}.json").write_text(json.dumps(names), encoding="utf-8")
    (tmp_path / "groups.json").write_text(json.dumps(GROUPS), encoding="utf-8")
    return tmp_path


def postprocessor(folder: Path, **parameters: str) -> Postprocessor:
    files = {"label_files": json.dumps({"en": "en.json", "zh": "zh.json"})}
    config = parse_postprocess(files | {"group_file": "groups.json"} | parameters)
    return Postprocessor(config, folder, class_count=4)


def answer(stage: Postprocessor, logits, status: str = "", **parameters):
    options = stage.options(parameters)
    (result,) = stage(np.array([logits], np.float32), [status], options)
    return json.loads(result.text)


def test_huge_logits_do_not_overflow() -> None:
    assert softmax(np.float32([1000, 999])) == pytest.approx([1 / (1 + math.exp(-1)), 0.26894142])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(InvalidModelOutput):
        softmax(np.float32([1, bad, 2]))


@given(arrays.arrays(np.float32, 7, elements=st.floats(-80, 80, width=32)), st.integers(1, 9))
def test_ranking_is_a_stable_sort_of_the_probabilities(logits, top_k: int) -> None:
    probabilities = softmax(logits)
    assert probabilities.sum() == pytest.approx(1)
    ranked = [p.class_id for p in rank(probabilities, top_k, 0.0)]
    assert ranked == sorted(range(7), key=lambda i: (-probabilities[i], i))[:top_k]


def test_ties_go_to_the_lowest_class_id() -> None:
    assert [p.class_id for p in rank(np.full(5, 0.2), 3, 0.0)] == [0, 1, 2]


def test_more_than_all_classes_gives_all_classes() -> None:
    assert len(rank(np.array([0.5, 0.3, 0.2]), 5, 0.0)) == 3


def test_a_groups_probabilities_add_up_before_the_threshold_applies() -> None:
    group = Group("canine", (2, 3), {})
    ranked = rank(np.array([0.1, 0.3, 0.25, 0.35]), 5, 0.5, Merge.of([group], 4))
    assert [(p.class_id, p.group, p.probability) for p in ranked] == [
        (None, group, pytest.approx(0.6))
    ]


@given(arrays.arrays(np.float32, 9, elements=st.floats(-9, 9, width=32)), st.permutations(range(9)))
def test_groups_lose_and_invent_no_probability(logits, order: list[int]) -> None:
    groups = [Group("a", tuple(sorted(order[:3])), {}), Group("b", tuple(sorted(order[3:5])), {})]
    ranked = rank(softmax(logits), 9, 0.0, Merge.of(groups, 9))
    assert sum(entry.probability for entry in ranked) == pytest.approx(1)
    assert len(ranked) == 6
    for entry in ranked:
        if entry.group:
            members = list(entry.group.class_ids)
            assert entry.probability == pytest.approx(softmax(logits)[members].sum())


def test_the_answer_is_an_object_per_prediction(folder: Path) -> None:
    # softmax of ln(p) is p.
    logits = np.log([0.1, 0.6, 0.2, 0.1])
    assert answer(postprocessor(folder), logits, top_k=2) == {
        "predictions": [
            {"class_id": 1, "class": "cat", "confidence": 0.6},
            {"class_id": 2, "class": "dog", "confidence": 0.2},
        ]
    }


def test_columns_and_camel_case_are_a_choice(folder: Path) -> None:
    stage = postprocessor(folder, layout="columns", field_case="camel", decimals="2")
    assert answer(stage, np.log([0.1, 0.6, 0.2, 0.1]), top_k=2, lang="zh") == {
        "classIds": [1, 2],
        "classes": ["猫", "狗"],
        "confidences": [0.6, 0.2],
    }


def test_groups_are_named_in_the_language_asked_for(folder: Path) -> None:
    result = answer(
        postprocessor(folder), np.log([0.1, 0.2, 0.3, 0.4]), group=True, lang="zh", top_k=1
    )
    assert result == {
        "predictions": [{"class_id": None, "class": "犬科", "group": "canine", "confidence": 0.7}]
    }


@pytest.mark.parametrize(("decimals", "expected"), [("0", 1.0), ("4", 1.0), ("5", 0.99999)])
def test_confidence_is_rounded_to_the_documented_digits(folder, decimals, expected) -> None:
    stage = postprocessor(folder, decimals=decimals)
    result = answer(stage, np.log([0.99999, 4e-6, 3e-6, 3e-6]), top_k=1)
    assert result["predictions"][0]["confidence"] == expected


def test_nothing_above_the_threshold_is_an_empty_answer(folder: Path) -> None:
    assert answer(postprocessor(folder), [0, 0, 0, 0], threshold=0.9) == {"predictions": []}


def test_a_failed_image_keeps_its_code_and_gets_no_label(folder: Path) -> None:
    status = "CORRUPT_IMAGE: the PNG ends before its end chunk"
    assert answer(postprocessor(folder), [0, 9, 0, 0], status) == {
        "error": "CORRUPT_IMAGE",
        "message": "the PNG ends before its end chunk",
    }


def test_nan_in_one_row_is_that_images_error(folder: Path) -> None:
    stage = postprocessor(folder)
    rows = np.array([[0, 5, 0, 0], [np.nan, 0, 0, 0], [9, 0, 0, 0]], np.float32)
    texts = [json.loads(a.text) for a in stage(rows, ["", "", ""], stage.options({}))]
    assert texts[1]["error"] == "INVALID_MODEL_OUTPUT"
    assert [t["predictions"][0]["class_id"] for t in (texts[0], texts[2])] == [1, 0]


@pytest.mark.parametrize(
    ("given_language", "expected"),
    [
        ({"lang": "zh"}, "猫"),
        ({"lang": "zh-CN"}, "猫"),
        ({"lang": "ZH_tw"}, "猫"),
        ({"lang": "xx"}, "cat"),
        ({"Accept-Language": "zh-CN,zh;q=0.9"}, "猫"),
        ({"accept-language": "en;q=0.3, zh;q=0.8"}, "猫"),
        ({"accept-language": "fr, zh;q=0"}, "cat"),
        ({"accept-language": "*"}, "cat"),
        ({"accept-language": ";;q=,,=;zh;q=x"}, "cat"),
        ({"lang": "en", "accept-language": "zh"}, "cat"),
        ({}, "cat"),
    ],
)
def test_the_language_is_negotiated(folder: Path, given_language, expected: str) -> None:
    result = answer(postprocessor(folder), [0, 9, 0, 0], **given_language)
    assert result["predictions"][0]["class"] == expected


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"top_k": 0}, ("top_k", "0", "1 to 100")),
        ({"top_k": 101}, ("top_k", "101", "1 to 100")),
        ({"top_k": "3"}, ("top_k", "'3'", "whole number")),
        ({"top_k": True}, ("top_k", "True")),
        ({"top_k": 2.5}, ("top_k", "2.5")),
        ({"threshold": -0.1}, ("threshold", "-0.1", "0 to 1")),
        ({"threshold": math.nan}, ("threshold", "nan")),
        ({"threshold": "0.5"}, ("threshold", "'0.5'")),
        ({"group": "yes"}, ("group", "'yes'", "true or false")),
        ({"group": 1}, ("group", "1")),
        ({"lang": 3}, ("lang", "3", "en, zh")),
        ({"lang": " "}, ("lang", "' '")),
        ({"topk": 3}, ("topk", "3", "top_k, threshold, lang, group")),
    ],
)
def test_a_wrong_request_parameter_is_named_with_what_is_allowed(folder, parameters, words) -> None:
    with pytest.raises(RequestError) as error:
        postprocessor(folder).options(parameters)
    assert all(word in str(error.value) for word in words), error.value


def test_an_extra_label_refuses_the_load_with_both_numbers(folder: Path) -> None:
    (folder / "en.json").write_text(json.dumps(["background", *NAMES["en"]]))
    with pytest.raises(ConfigurationError, match=r"5 names.*4 names, one per logit"):
        postprocessor(folder)


def test_a_byte_order_mark_is_no_part_of_the_first_name(folder: Path) -> None:
    (folder / "en.json").write_text("\ufeff" + json.dumps(NAMES["en"]), encoding="utf-8")
    result = answer(postprocessor(folder), [9, 0, 0, 0])
    assert result["predictions"][0]["class"] == "tench"


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"a": {"class_ids": [4], "labels": {"en": "a", "zh": "a"}}}, ("4", "0 to 3")),
        ({"a": {"class_ids": [1], "labels": {"en": "a"}}}, ("zh",)),
        (
            {
                "a": {"class_ids": [1], "labels": {"en": "a", "zh": "a"}},
                "b": {"class_ids": [1], "labels": {"en": "b", "zh": "b"}},
            },
            ("b", "1", "a"),
        ),
        ([], ("object",)),
    ],
)
def test_a_wrong_group_file_refuses_the_load(folder: Path, groups, words) -> None:
    (folder / "groups.json").write_text(json.dumps(groups))
    with pytest.raises(ConfigurationError) as error:
        postprocessor(folder)
    assert all(word in str(error.value) for word in words), error.value


def test_a_missing_label_file_is_named_without_its_path(folder: Path) -> None:
    (folder / "zh.json").unlink()
    with pytest.raises(ConfigurationError, match=r"zh\.json") as error:
        postprocessor(folder)
    assert str(folder) not in str(error.value)
