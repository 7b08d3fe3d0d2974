"""Small Python models for questions about Triton itself, written into a repository at test time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import requests

_CONFIG = """
name: "{name}"
backend: "python"
max_batch_size: 0
input [ {{ name: "RAW_IMAGE" data_type: TYPE_STRING dims: [ -1, 1 ] }} ]
output [ {{ name: "OUTPUT_RESULTS" data_type: TYPE_STRING dims: [ -1, 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: {instances} }} ]
"""

_ENSEMBLE = """
name: "{pipeline}_ensemble"
platform: "ensemble"
max_batch_size: 0
input [ {{ name: "RAW_IMAGE" data_type: TYPE_STRING dims: [ -1, 1 ] }} ]
output [ {{ name: "OUTPUT_RESULTS" data_type: TYPE_STRING dims: [ -1, 1 ] }} ]
ensemble_scheduling {{ step [ {{
  model_name: "{pipeline}_preprocess" model_version: -1
  input_map {{ key: "RAW_IMAGE" value: "RAW_IMAGE" }}
  output_map {{ key: "OUTPUT_RESULTS" value: "OUTPUT_RESULTS" }}
}} ] }}
"""

# Does what the request's text says; anything else is answered with {}.
MISBEHAVING = """
import os, signal
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensor = pb_utils.get_input_tensor_by_name(request, "RAW_IMAGE").as_numpy()
        order = tensor.reshape(-1)[0]
        if order == b"refuse":
            error = pb_utils.TritonError("no", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=error)
        if order == b"raise":
            raise RuntimeError("as ordered")
        if order == b"die":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = np.full(tensor.shape, "{}", dtype=object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT_RESULTS", answer)])
"""

# Records what the request orders: {"observe": how many, "pause_s": between them, "image": with
# its sizes and steps, "idle": nothing at all}.
RECORDING = """
import json, time
import numpy as np
import triton_python_backend_utils as pb_utils
from common.metrics import StageMetrics

class TritonPythonModel:
    def initialize(self, args):
        self.metrics = StageMetrics(pb_utils, args["model_name"], args["model_version"])
        self.metrics.build_info(git="test")

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensor = pb_utils.get_input_tensor_by_name(request, "RAW_IMAGE").as_numpy()
        order = json.loads(tensor.reshape(-1)[0])
        in_path_s, in_path_cpu_s, cpu_s = 0.0, 0.0, time.process_time()
        for _ in range(order["observe"]):
            started, cpu = time.perf_counter(), time.thread_time()
            if order.get("image"):
                self.metrics.input(100_000, 0.5)
                self.metrics.preprocess_steps(0.001, 0.0005, 0.0)
            if not order.get("idle"):
                self.metrics.stage_done(0.001)
            in_path_cpu_s += time.thread_time() - cpu
            in_path_s += time.perf_counter() - started
            if order.get("pause_s"):
                time.sleep(order["pause_s"])
        answer = {"in_path_s": in_path_s, "in_path_cpu_s": in_path_cpu_s}
        answer |= {"cpu_s": time.process_time() - cpu_s}
        answer = np.full((1, 1), json.dumps(answer), dtype=object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT_RESULTS", answer)])

    def finalize(self):
        self.metrics.close()
"""


def write_model(repository: Path, name: str, source: str, instances: int = 1) -> None:
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(source, encoding="utf-8")
    config = _CONFIG.format(name=name, instances=instances)
    (repository / name / "config.pbtxt").write_text(config, encoding="utf-8")


def write_ensemble(repository: Path, pipeline: str) -> None:
    (repository / f"{pipeline}_ensemble" / "1").mkdir(parents=True)
    config = _ENSEMBLE.format(pipeline=pipeline)
    (repository / f"{pipeline}_ensemble" / "config.pbtxt").write_text(config, encoding="utf-8")


def send(http_url: str, model: str, order: str | dict[str, Any]) -> requests.Response:
    text = order if isinstance(order, str) else json.dumps(order)
    tensor = {"name": "RAW_IMAGE", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
    url = f"{http_url}/v2/models/{model}/infer"
    return requests.post(url, json={"inputs": [tensor]}, timeout=60)


def answer(response: requests.Response) -> dict[str, float]:
    result: dict[str, float] = json.loads(response.json()["outputs"][0]["data"][0])
    return result
