"""Every collected input through the real server, alone and mixed: codes, order, equal bits."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from hypothesis import given, settings
from hypothesis import strategies as st
from image_cases import ALL_CASES, Case

from embedded import EmbeddedServer

BATCH = 32


def ask(client, model: str, elements, outputs) -> list[np.ndarray]:
    tensor = grpcclient.InferInput("RAW_IMAGE", [len(elements), 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[e] for e in elements], dtype=object))
    answer = client.infer(model, [tensor])
    return [answer.as_numpy(name) for name in outputs]


@pytest.fixture(scope="module")
def client(server: EmbeddedServer):
    with grpcclient.InferenceServerClient(server.grpc_address) as client:
        yield client


@pytest.fixture(scope="module")
def alone(client) -> dict[str, bytes]:
    """Each case's answer when it is the only image of the only request."""
    return {
        str(case): ask(client, "resnet50_ensemble", [case.element], ["OUTPUT_RESULTS"])[0][0, 0]
        for case in ALL_CASES
    }


def test_each_case_gets_labels_or_its_code(alone) -> None:
    for case in ALL_CASES:
        result = json.loads(alone[str(case)])
        if "error" in result:
            assert result["error"] in case.codes, (str(case), result)
            assert set(result) == {"error", "message"}
        else:
            assert case.shows is not None, str(case)
            assert len(result["predictions"]) == 5


def test_no_answer_leaks_a_path_or_a_traceback(alone) -> None:
    for name, text in alone.items():
        for leak in (b"/models", b"model_repository", b"Traceback", b".py", b"site-packages"):
            assert leak not in text, name


def test_preprocessed_pixels_do_not_depend_on_the_neighbours(client) -> None:
    outputs = ["PREPROCESSED_IMAGE", "IMAGE_STATUS"]
    for start in range(0, len(ALL_CASES), BATCH):
        cases = ALL_CASES[start : start + BATCH]
        batch, statuses = ask(client, "resnet50_preprocess", [c.element for c in cases], outputs)
        for case, row, status in zip(cases, batch, statuses, strict=True):
            (one,), (one_status,) = ask(client, "resnet50_preprocess", [case.element], outputs)
            assert (row == one).all(), str(case)
            assert status == one_status, str(case)


CASES = st.lists(st.sampled_from(ALL_CASES), min_size=1, max_size=16)


@settings(deadline=None, max_examples=25)
@given(CASES)
def test_any_mix_in_one_request_answers_each_as_if_alone(client, alone, cases: list[Case]) -> None:
    (answers,) = ask(client, "resnet50_ensemble", [c.element for c in cases], ["OUTPUT_RESULTS"])
    wrong = [str(c) for c, answer in zip(cases, answers) if answer[0] != alone[str(c)]]
    assert not wrong


@settings(deadline=None, max_examples=12)
@given(CASES)
def test_any_mix_from_several_clients_answers_each_as_if_alone(client, alone, cases) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda c: ask(client, "resnet50_ensemble", [c.element], ["OUTPUT_RESULTS"])[0],
                cases,
            )
        )
    wrong = [str(c) for c, answer in zip(cases, answers) if answer[0, 0] != alone[str(c)]]
    assert not wrong
