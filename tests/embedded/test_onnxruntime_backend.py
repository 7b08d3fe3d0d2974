"""The Python-based onnxruntime backend: its configuration, its tensors, its refusals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
import requests
from tiny_models import IDENTITY, IDENTITY_CONFIG, tensor, write_config, write_model

from embedded import EmbeddedServer

TIMEOUT_S = 60
WAIT_FOR_COMPANY = "dynamic_batching { max_queue_delay_microseconds: 300000 }\n"


def write_models(repository: Path) -> None:
    write_model(
        repository,
        "sum_and_difference",
        "g (float[N, 3] a, float[N, 3] b) => (float[N, 3] sum, float[N, 3] difference)"
        "{ sum = Add(a, b)\n difference = Sub(a, b) }",
        "max_batch_size: 8\n"
        + "".join(tensor("input", name, "3") for name in "ab")
        + "".join(tensor("output", name, "3") for name in ("difference", "sum")),
    )
    write_model(
        repository,
        "unbatched_transpose",
        "g (int64[2, K] x) => (int64[K, 2] y) { y = Transpose(x) }",
        "max_batch_size: 0\n"
        + tensor("input", "x", "2, -1", "TYPE_INT64")
        + tensor("output", "y", "-1, 2", "TYPE_INT64"),
    )
    write_model(
        repository,
        "text",
        "g (string[N, 1] x) => (string[N, 1] y) { y = Identity(x) }",
        "max_batch_size: 8\n"
        + tensor("input", "x", "1", "TYPE_STRING")
        + tensor("output", "y", "1", "TYPE_STRING"),
    )
    write_model(
        repository,
        "row_mean",
        "g (float[N, L] x) => (float[N, 1] y) { y = ReduceMean <axes = [1]> (x) }",
        "max_batch_size: 8\n"
        + WAIT_FOR_COMPANY
        + tensor("input", "x", "-1")
        + tensor("output", "y", "1"),
    )
    write_model(
        repository,
        "lookup",
        "g (int64[N, 1] x) => (float[N, 1] y) <float[3] table = {10, 20, 30}>"
        "{ y = Gather(table, x) }",
        "max_batch_size: 8\n"
        + WAIT_FOR_COMPANY
        + tensor("input", "x", "1", "TYPE_INT64")
        + tensor("output", "y", "1"),
    )
    write_model(
        repository,
        "batch_eater",
        "g (float[N, 3] x) => (float[M, 3] y) { y = Concat <axis = 0> (x, x) }",
        IDENTITY_CONFIG,
    )
    for threads in (1, 4):
        parameters = {"intra_op_thread_count": threads, "execution_mode": 0}
        write_model(
            repository,
            f"threads_{threads}",
            IDENTITY,
            'default_model_filename: "net.onnx"\n'
            + IDENTITY_CONFIG
            + "".join(
                f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
                for key, value in parameters.items()
            ),
            file="net.onnx",
        )


@pytest.fixture(scope="module")
def tiny_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    repository = tmp_path_factory.mktemp("tiny") / "models"
    write_models(repository)
    with EmbeddedServer(repository) as server:
        yield server


def post(server: EmbeddedServer, model: str, **inputs: np.ndarray) -> requests.Response:
    types = {"f": "FP32", "i": "INT64", "U": "BYTES", "O": "BYTES"}
    tensors = [
        {"name": n, "shape": a.shape, "datatype": types[a.dtype.kind], "data": a.ravel().tolist()}
        for n, a in inputs.items()
    ]
    url = f"{server.http_url}/v2/models/{model}/infer"
    return requests.post(url, json={"inputs": tensors}, timeout=TIMEOUT_S)


def outputs(answer: requests.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return {
        each["name"]: np.reshape(each["data"], each["shape"]) for each in answer.json()["outputs"]
    }


def floats(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_several_inputs_and_outputs_keep_their_names(tiny_server: EmbeddedServer) -> None:
    a, b = floats([1, 2, 3], [4, 5, 6]), floats([10, 20, 30], [40, 50, 60])
    answer = outputs(post(tiny_server, "sum_and_difference", b=b, a=a))
    assert np.array_equal(answer["sum"], a + b)
    assert np.array_equal(answer["difference"], a - b)


def test_only_the_outputs_asked_for_are_answered(tiny_server: EmbeddedServer) -> None:
    row = {"shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
    body = {
        "inputs": [{"name": name, **row} for name in "ab"],
        "outputs": [{"name": "difference"}],
    }
    url = f"{tiny_server.http_url}/v2/models/sum_and_difference/infer"
    answer = outputs(requests.post(url, json=body, timeout=TIMEOUT_S))
    assert list(answer) == ["difference"]


def test_a_model_without_batch_dimension_gets_its_tensor_as_it_is(
    tiny_server: EmbeddedServer,
) -> None:
    matrix = np.arange(6, dtype=np.int64).reshape(2, 3)
    assert np.array_equal(
        outputs(post(tiny_server, "unbatched_transpose", x=matrix))["y"], matrix.T
    )


def test_text_passes_unchanged(tiny_server: EmbeddedServer) -> None:
    texts = np.array([["tabby"], ["虎斑猫"], [""]])
    assert np.array_equal(outputs(post(tiny_server, "text", x=texts))["y"], texts)


def test_text_that_is_not_utf8_is_the_clients_fault(tiny_server: EmbeddedServer) -> None:
    answer = requests.post(
        f"{tiny_server.http_url}/v2/models/text/infer",
        data=b"\xff\xfe",
        headers={"Inference-Header-Content-Length": "0"},
        timeout=TIMEOUT_S,
    )
    assert answer.status_code == 400
    assert answer.json()["error"] == "text: the input x holds text that is not UTF-8"


def coalesced(
    server: EmbeddedServer, model: str, arrays: list[np.ndarray]
) -> list[requests.Response]:
    """Send all at once, and see that the server ran some of them together."""

    def executions() -> int:
        url = f"{server.http_url}/v2/models/{model}/stats"
        return int(requests.get(url, timeout=TIMEOUT_S).json()["model_stats"][0]["execution_count"])

    before = executions()
    with ThreadPoolExecutor(len(arrays)) as pool:
        answers = list(pool.map(lambda array: post(server, model, x=array), arrays))
    assert executions() - before < len(arrays), "nothing was coalesced: the test shows nothing"
    return answers


def test_coalesced_requests_are_answered_separately(tiny_server: EmbeddedServer) -> None:
    arrays = [np.full((1 + i % 2, 4), i, dtype=np.float32) for i in range(5)]
    for array, answer in zip(arrays, coalesced(tiny_server, "row_mean", arrays)):
        assert np.array_equal(outputs(answer)["y"], array[:, :1])


def test_requests_of_different_shapes_do_not_mix(tiny_server: EmbeddedServer) -> None:
    arrays = [np.full((1, 2 + i % 2), i, dtype=np.float32) for i in range(6)]
    with ThreadPoolExecutor(len(arrays)) as pool:
        answers = list(pool.map(lambda array: post(tiny_server, "row_mean", x=array), arrays))
    for array, answer in zip(arrays, answers):
        assert np.array_equal(outputs(answer)["y"], array[:, :1])


def test_a_run_that_fails_spares_the_requests_coalesced_with_it(
    tiny_server: EmbeddedServer,
) -> None:
    indices = [0, 1, 99, 2]
    arrays = [np.array([[index]], dtype=np.int64) for index in indices]
    answers = coalesced(tiny_server, "lookup", arrays)
    assert [answer.status_code for answer in answers] == [200, 200, 500, 200]
    good = [outputs(answer)["y"].item() for answer in answers if answer.status_code == 200]
    assert good == [10, 20, 30]


def test_a_failing_run_tells_the_client_no_path_and_no_traceback(
    tiny_server: EmbeddedServer,
) -> None:
    answer = post(tiny_server, "lookup", x=np.array([[99]], dtype=np.int64))
    assert answer.status_code == 500
    assert answer.json() == {"error": "lookup: the model failed"}
    assert tiny_server.log_path is not None
    assert "Gather" in tiny_server.log_path.read_text()


def test_an_output_with_other_rows_than_the_input_is_no_answer(
    tiny_server: EmbeddedServer,
) -> None:
    assert post(tiny_server, "batch_eater", x=floats([1, 2, 3])).status_code == 500


def test_the_thread_count_is_honoured(tiny_server: EmbeddedServer) -> None:
    def stub_threads(model: str) -> int:
        stubs = psutil.Process(tiny_server.pid).children(recursive=True)
        [stub] = [stub for stub in stubs if any(model in word for word in stub.cmdline())]
        return stub.num_threads()

    # The calling thread is one of the intra-op threads.
    assert stub_threads("threads_4") - stub_threads("threads_1") == 3


def test_one_image_has_the_same_logits_alone_and_in_any_batch(server: EmbeddedServer) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 224, 224, 3), dtype=np.uint8)

    def logits(rows: np.ndarray) -> np.ndarray:
        head = {"name": "input", "datatype": "UINT8", "shape": list(rows.shape)}
        body = {"inputs": [{**head, "data": rows.ravel().tolist()}]}
        url = f"{server.http_url}/v2/models/resnet50_inference/infer"
        answer = requests.post(url, json=body, timeout=TIMEOUT_S)
        return outputs(answer)["output"]

    assert np.array_equal(logits(pixels), np.concatenate([logits(row[None]) for row in pixels]))


# --- Configurations that do not fit their ONNX file ---------------------------------------------

X, Y = tensor("input", "x", "3"), tensor("output", "y", "3")
FIXED_BATCH = "g (float[1, 3] x) => (float[1, 3] y) { y = Identity(x) }"


def parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'


DISAGREEMENTS = {
    "input_name": (
        IDENTITY,
        "max_batch_size: 8\n" + tensor("input", "image", "3") + Y,
        "input name: config says image, ONNX says x",
    ),
    "missing_input": (
        "g (float[N, 3] x, float[N, 3] z) => (float[N, 3] y) { y = Add(x, z) }",
        IDENTITY_CONFIG,
        "input name: config says x, ONNX says x, z",
    ),
    "output_name": (
        IDENTITY,
        "max_batch_size: 8\n" + X + tensor("output", "logits", "3"),
        "output name: config says logits, ONNX says y",
    ),
    "data_type": (
        IDENTITY,
        "max_batch_size: 8\n" + tensor("input", "x", "3", "TYPE_UINT8") + Y,
        "input x data_type: config says TYPE_UINT8, ONNX says TYPE_FP32",
    ),
    "fixed_size": (
        IDENTITY,
        "max_batch_size: 8\n" + X + tensor("output", "y", "4"),
        "output y dims: config says [4], ONNX says [3] after the batch",
    ),
    "rank": (
        IDENTITY,
        "max_batch_size: 8\n" + tensor("input", "x", "1, 3") + Y,
        "input x dims: config says [1, 3], ONNX says [3] after the batch",
    ),
    "rank_without_batch": (
        IDENTITY,
        "max_batch_size: 0\n" + X + Y,
        "input x dims: config says [3], ONNX says [-1, 3]",
    ),
    "fixed_batch": (
        FIXED_BATCH,
        IDENTITY_CONFIG,
        "max_batch_size: config says 8, ONNX says a batch of exactly 1 for input x",
    ),
    "thread_count": (
        IDENTITY,
        IDENTITY_CONFIG + parameter("intra_op_thread_count", "many"),
        "parameters intra_op_thread_count: config says 'many', allowed is a whole number from 0",
    ),
    "execution_mode": (
        IDENTITY,
        IDENTITY_CONFIG + parameter("execution_mode", "2"),
        "parameters execution_mode: config says '2', allowed is 0 or 1",
    ),
    "file_name": (
        IDENTITY,
        'default_model_filename: "net.onnx"\n' + IDENTITY_CONFIG,
        "default_model_filename: config says net.onnx, version folder 1 holds no such file",
    ),
    "accelerator": (
        IDENTITY,
        IDENTITY_CONFIG
        + "optimization { execution_accelerators { "
        + 'cpu_execution_accelerator [ { name: "openvino" } ] } }',
        "cpu_execution_accelerator: config says openvino, this backend has none",
    ),
}


def load_error(server: EmbeddedServer, model: str) -> str:
    answer = requests.post(
        f"{server.http_url}/v2/repository/models/{model}/load",
        headers=server.admin_headers,
        timeout=TIMEOUT_S,
    )
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_a_config_that_does_not_fit_its_onnx_file_is_refused_with_both_sides(
    tiny_server: EmbeddedServer, case: str
) -> None:
    graph, config, expected = DISAGREEMENTS[case]
    write_model(tiny_server.model_repository, f"bad_{case}", graph, config)
    assert f"bad_{case}: {expected}" in load_error(tiny_server, f"bad_{case}")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("ir_version", "model.onnx: ir_version: ONNX says 99, onnxruntime"),
        ("opset", "model.onnx: opset_import: ONNX says 99 for ai.onnx, onnxruntime"),
    ],
)
def test_an_onnx_file_newer_than_the_runtime_is_named_as_such(
    tiny_server: EmbeddedServer, field: str, expected: str
) -> None:
    file = write_model(tiny_server.model_repository, f"new_{field}", IDENTITY, IDENTITY_CONFIG)
    model = onnx.load(file)
    if field == "opset":
        model.opset_import[0].version = 99
    else:
        model.ir_version = 99
    file.write_bytes(model.SerializeToString())
    error = load_error(tiny_server, f"new_{field}")
    assert expected in error
    assert "reads up to" in error


def test_missing_external_data_is_named(tiny_server: EmbeddedServer) -> None:
    graph = "g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }"
    file = write_model(tiny_server.model_repository, "no_weights", graph, IDENTITY_CONFIG)
    model = onnx.load(file)
    weights = onnx.numpy_helper.from_array(np.ones(3, dtype=np.float32), "w")
    model.graph.initializer[0].CopyFrom(weights)
    onnx.save(model, file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (file.parent / "weights.bin").unlink()
    expected = "model.onnx: external data: ONNX says weights.bin, the version folder holds no such"
    assert expected in load_error(tiny_server, "no_weights")


def test_a_truncated_onnx_file_is_refused_in_one_line(tiny_server: EmbeddedServer) -> None:
    file = write_model(tiny_server.model_repository, "truncated", IDENTITY, IDENTITY_CONFIG)
    file.write_bytes(file.read_bytes()[:-20])
    assert "truncated: model.onnx: onnxruntime" in load_error(tiny_server, "truncated")


def test_a_refused_model_loads_once_its_config_is_put_right(tiny_server: EmbeddedServer) -> None:
    repository = tiny_server.model_repository
    write_model(
        repository, "mended", IDENTITY, "max_batch_size: 8\n" + X + tensor("output", "z", "3")
    )
    load_error(tiny_server, "mended")
    # A file's time of change is what the server goes by.
    time.sleep(0.01)
    write_config(repository, "mended", IDENTITY_CONFIG)
    url = f"{tiny_server.http_url}/v2/repository/models/mended/load"
    answer = requests.post(url, headers=tiny_server.admin_headers, timeout=TIMEOUT_S)
    assert answer.status_code == 200, answer.text
    row = floats([1, 2, 3])
    assert np.array_equal(outputs(post(tiny_server, "mended", x=row))["y"], row)
