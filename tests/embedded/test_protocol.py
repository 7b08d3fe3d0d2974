"""The public contract on the real server: every way in, batches, parameters, languages, faults."""

from __future__ import annotations

import base64
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import requests
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from image_cases.case import encoded, scene

from common.errors import ERROR_CODES
from embedded import EmbeddedServer

MODEL = "resnet50_ensemble"
JPEG = encoded(scene(400, 300), "JPEG", quality=90)
TEXT = base64.b64encode(JPEG).decode()


def strict(text: str):
    """Parse JSON as RFC 8259 has it: no NaN, no Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def infer(server: EmbeddedServer, data, headers=None, shape=None, **parameters):
    body = {
        "inputs": [
            {
                "name": "RAW_IMAGE",
                "shape": shape or [len(data), 1],
                "datatype": "BYTES",
                "data": data,
            }
        ]
    }
    if parameters:
        body["parameters"] = parameters
    url = f"{server.http_url}/v2/models/{MODEL}/infer"
    return requests.post(url, json=body, headers=headers, timeout=60)


def generate(server: EmbeddedServer, raw_image, **keys):
    url = f"{server.http_url}/v2/models/{MODEL}/generate"
    return requests.post(url, json={"RAW_IMAGE": raw_image, **keys}, timeout=60)


def results(response) -> list:
    assert response.status_code == 200, response.text
    (output,) = response.json()["outputs"]
    assert output["shape"] == [len(output["data"]), 1]
    return [strict(text) for text in output["data"]]


@pytest.fixture(scope="module")
def expected(server: EmbeddedServer):
    (result,) = results(infer(server, [TEXT]))
    assert len(result["predictions"]) == 5
    return result


def test_metadata_declares_one_text_in_and_one_text_out(server: EmbeddedServer) -> None:
    metadata = requests.get(f"{server.http_url}/v2/models/{MODEL}", timeout=10).json()
    assert metadata["inputs"] == [{"name": "RAW_IMAGE", "datatype": "BYTES", "shape": [-1, 1]}]
    assert metadata["outputs"] == [
        {"name": "OUTPUT_RESULTS", "datatype": "BYTES", "shape": [-1, 1]}
    ]


def test_generate_takes_base64_and_answers_json(server, expected) -> None:
    response = generate(server, TEXT)
    assert response.status_code == 200
    assert strict(response.json()["OUTPUT_RESULTS"]) == expected


def test_generate_takes_a_list_as_a_batch(server, expected) -> None:
    answers = generate(server, [TEXT, "????", TEXT]).json()["OUTPUT_RESULTS"]
    assert [strict(a) for a in answers] == [expected, strict(answers[1]), expected]
    assert strict(answers[1])["error"] == "INVALID_BASE64"


def test_curl_alone_gets_labels(server, expected, tmp_path) -> None:
    picture = tmp_path / "picture.jpg"
    picture.write_bytes(JPEG)
    line = (
        f"(printf '{{\"RAW_IMAGE\":\"'; base64 -w0 {picture}; printf '\"}}') | "
        f"curl -fsS -d @- {server.http_url}/v2/models/{MODEL}/generate"
    )
    done = subprocess.run(
        ["bash", "-c", line], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert strict(json.loads(done.stdout)["OUTPUT_RESULTS"]) == expected


def test_the_raw_file_as_request_body_is_one_element(server, expected) -> None:
    response = requests.post(
        f"{server.http_url}/v2/models/{MODEL}/infer",
        data=JPEG,
        headers={
            "Inference-Header-Content-Length": "0",
            "Content-Type": "application/octet-stream",
        },
        timeout=60,
    )
    header_bytes = int(response.headers["Inference-Header-Content-Length"])
    # A binary STRING element has its length in four bytes before it.
    assert strict(response.content[header_bytes + 4 :].decode()) == expected


@pytest.mark.parametrize("element", [JPEG, TEXT.encode()], ids=["raw bytes", "base64"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_binary_tensors_work_over_http_and_grpc(server, expected, protocol, element) -> None:
    module = httpclient if protocol == "http" else grpcclient
    address = server.http_address if protocol == "http" else server.grpc_address
    tensor = module.InferInput("RAW_IMAGE", [2, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[element], [b""]], dtype=object))
    with module.InferenceServerClient(address) as client:
        answer = client.infer(MODEL, [tensor], request_id="7").as_numpy("OUTPUT_RESULTS")
    assert answer.shape == (2, 1)
    assert strict(answer[0, 0].decode()) == expected
    assert strict(answer[1, 0].decode())["error"] == "EMPTY_INPUT"


def test_trailing_zero_bytes_reach_the_server(server) -> None:
    bmp = encoded(scene(), "BMP") + b"\0\0\0"
    tensor = httpclient.InferInput("RAW_IMAGE", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[bmp]], dtype=object))
    with httpclient.InferenceServerClient(server.http_address) as client:
        answer = client.infer(MODEL, [tensor]).as_numpy("OUTPUT_RESULTS")
    (alone,) = results(infer(server, [base64.b64encode(encoded(scene(), "BMP")).decode()]))
    assert strict(answer[0, 0].decode()) == alone


def test_a_full_batch_is_answered_in_order(server) -> None:
    texts = [base64.b64encode(encoded(scene(seed=i), "PNG")).decode() for i in range(32)]
    together = results(infer(server, texts))
    assert together == [results(infer(server, [text]))[0] for text in texts]


def test_one_more_than_the_batch_limit_is_a_400_that_names_it(server) -> None:
    response = infer(server, [TEXT] * 33)
    assert response.status_code == 400
    assert "32" in response.text


def test_options_shape_the_answer(server, expected) -> None:
    (two,) = results(infer(server, [TEXT], top_k=2))
    assert two["predictions"] == expected["predictions"][:2]
    (none,) = results(infer(server, [TEXT], threshold=1))
    assert none == {"predictions": []}
    (grouped,) = results(infer(server, [TEXT], group=True, top_k=100))
    assert any("group" in p and p["class_id"] is None for p in grouped["predictions"])
    answer = generate(server, TEXT, top_k=1, lang="zh").json()
    (chinese,) = strict(answer["OUTPUT_RESULTS"])["predictions"]
    assert chinese["class_id"] == expected["predictions"][0]["class_id"]
    assert chinese["class"] != expected["predictions"][0]["class"]


def test_accept_language_is_honoured_and_a_parameter_wins(server) -> None:
    header = {"Accept-Language": "fr;q=0.9, zh-TW;q=0.8"}
    (chinese,) = results(infer(server, [TEXT], headers=header, top_k=1))
    (explicit,) = results(infer(server, [TEXT], headers=header, top_k=1, lang="en"))
    assert chinese["predictions"][0]["class"].isascii() is False
    assert explicit["predictions"][0]["class"].isascii() is True


@pytest.mark.parametrize(
    "keys", [{"top_k": 0}, {"top_k": 101}, {"threshold": 2}, {"group": "maybe"}, {"topk": 3}]
)
def test_a_wrong_parameter_is_a_400_that_says_what_is_allowed(server, keys) -> None:
    ((key, value),) = keys.items()
    for response in (generate(server, TEXT, **keys), infer(server, [TEXT], **keys)):
        assert response.status_code == 400
        assert all(word in response.text for word in (key, str(value), "allowed"))
        assert "Traceback" not in response.text


def body(name="RAW_IMAGE", shape=(1, 1), datatype="BYTES", data: object = TEXT) -> bytes:
    tensor = {"name": name, "shape": list(shape), "datatype": datatype, "data": [data]}
    return json.dumps({"inputs": [tensor]}).encode()


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        pytest.param(b"{", (400, 500), id="cut JSON"),
        pytest.param(b"{}", (400, 500), id="no inputs"),
        pytest.param(body(data={"b64": "aGk="}), (400, 500), id="object element"),
        pytest.param(body(data=None), (400, 500), id="null element"),
        pytest.param(body(shape=(-1, 1)), (400, 500), id="negative shape"),
        pytest.param(body(shape=(1,)), (400,), id="no batch axis"),
        pytest.param(body(name="IMAGE"), (400,), id="unknown name"),
        pytest.param(body(datatype="FP32", data=1.0), (400,), id="wrong type"),
    ],
)
def test_malformed_requests_are_refused_and_the_next_one_works(
    server, expected, body, statuses
) -> None:
    response = requests.post(f"{server.http_url}/v2/models/{MODEL}/infer", data=body, timeout=30)
    assert response.status_code in statuses
    assert results(infer(server, [TEXT])) == [expected]


def test_a_binary_element_without_its_length_prefix_is_refused(server, expected) -> None:
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": "RAW_IMAGE",
                    "shape": [1, 1],
                    "datatype": "BYTES",
                    "parameters": {"binary_data_size": len(JPEG)},
                }
            ]
        }
    ).encode()
    response = requests.post(
        f"{server.http_url}/v2/models/{MODEL}/infer",
        data=header + JPEG,
        headers={"Inference-Header-Content-Length": str(len(header))},
        timeout=30,
    )
    assert 400 <= response.status_code < 600
    assert results(infer(server, [TEXT])) == [expected]


def test_coalesced_good_and_bad_requests_never_meet(server, expected) -> None:
    def ask(position: int):
        if position % 3 == 1:
            return infer(server, ["@@@@"])
        return infer(server, [TEXT])

    with ThreadPoolExecutor(12) as pool:
        responses = list(pool.map(ask, range(60)))
    for position, response in enumerate(responses):
        (result,) = results(response)
        if position % 3 == 1:
            assert result["error"] == "INVALID_BASE64"
        else:
            assert result == expected


def test_a_bad_parameter_fails_its_own_request_only(server, expected) -> None:
    def ask(position: int):
        return infer(server, [TEXT], **({"top_k": 0} if position % 2 else {}))

    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(ask, range(40)))
    for position, response in enumerate(responses):
        if position % 2:
            assert response.status_code == 400
        else:
            assert results(response) == [expected]


def test_error_codes_are_those_of_the_catalogue(server) -> None:
    elements = ["", "!!", base64.b64encode(b"%PDF-1.7").decode(), TEXT[: len(TEXT) // 8 * 4]]
    found = [result["error"] for result in results(infer(server, elements))]
    assert found == ["EMPTY_INPUT", "INVALID_BASE64", "UNSUPPORTED_FORMAT", "CORRUPT_IMAGE"]
    assert set(found) <= set(ERROR_CODES)
