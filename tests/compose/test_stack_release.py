"""Weights change and the server stops while clients keep asking: nobody gets a broken answer."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import requests
from compose_stack import Stack, give_to_containers
from onnx import numpy_helper

MODEL = "model_repository/resnet50_inference/1/model.onnx"
FAVOURED_CLASS = 7
CLIENTS = 4
PAUSE_S = 0.3
RETRIES = 5
OVERLOADED = 503


@contextmanager
def steady_traffic(stack: Stack, image: bytes) -> Iterator[list[int]]:
    """Four clients that ask, and again where the queue was full; the HTTP codes that remained."""
    codes: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(PAUSE_S):
            for _ in range(RETRIES):
                reply = stack.infer(image, timeout_s=30)
                if reply.status_code != OVERLOADED:
                    break
                stop.wait(PAUSE_S)
            codes.append(reply.status_code)

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(ask) for _ in range(CLIENTS)]
        try:
            yield codes
        finally:
            stop.set()
        for client in clients:
            client.result()


def write_favouring_weights(source: Path, target: Path) -> None:
    """The served network with one class's bias raised: it wins on every picture."""
    model = onnx.load(source)
    (bias,) = [item for item in model.graph.initializer if list(item.dims) == [1000]]
    values = numpy_helper.to_array(bias).copy()
    values[FAVOURED_CLASS] += np.float32(100)
    bias.CopyFrom(numpy_helper.from_array(values, bias.name))
    onnx.save(model, target)


def test_a_release_and_its_rollback_change_the_answers_without_a_failed_request(
    stack: Stack, photograph: bytes, tmp_path: Path
) -> None:
    write_favouring_weights(stack.project / MODEL, tmp_path / "new.onnx")
    publish = [sys.executable, "scripts/publish.py"]
    server = ["--grpc-url", f"127.0.0.1:{stack.ports['GRPC_PORT']}"]
    before = stack.classify(photograph)[0]["predictions"][0]["class_id"]
    assert before != FAVOURED_CLASS
    restarts = stack.restarts()
    with steady_traffic(stack, photograph) as codes:
        stack.run(
            *publish, "publish", str(tmp_path / "new.onnx"), *server,
            "--same-recipe", "--force", "one class was favoured on purpose", timeout_s=180,
        )  # fmt: skip
        assert stack.classify(photograph)[0]["predictions"][0]["class_id"] == FAVOURED_CLASS
        stack.run(*publish, "rollback", *server, timeout_s=120)
        give_to_containers(stack.project)
        assert stack.classify(photograph)[0]["predictions"][0]["class_id"] == before
    assert set(codes) == {200}, {code: codes.count(code) for code in set(codes)}
    assert stack.restarts() == restarts


def test_a_stop_under_load_answers_or_refuses_every_request(
    stack: Stack, photograph: bytes
) -> None:
    stop = threading.Event()

    def ask() -> list[int]:
        codes = []
        while not stop.is_set():
            try:
                codes.append(stack.infer(photograph, timeout_s=20).status_code)
            except requests.ConnectionError:  # it has stopped; a time-out would be another error
                stop.wait(PAUSE_S)
        return codes

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(ask) for _ in range(CLIENTS)]
        time.sleep(3)
        stack.compose("stop", "triton")
        exit_code = stack.inspect("triton")["State"]["ExitCode"]
        stop.set()
        codes = [code for client in clients for code in client.result()]
    stack.up()
    assert exit_code == 0
    assert 200 in codes
    assert set(codes) <= {200, OVERLOADED}
