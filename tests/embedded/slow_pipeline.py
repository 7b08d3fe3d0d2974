"""The small pipeline with a network that takes its time, in the CPU's work and not in sleep."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from small_pipeline import PIPELINE, make_repository, network

_SIDE = 384
_TRIAL_STEPS = 16


def make_slow_repository(folder: Path, image_ms: float) -> Path:
    """The four models; inference takes about ``image_ms`` per image on this machine, idle."""
    repository = make_repository(folder)
    version = repository / f"{PIPELINE}_inference" / "1"
    # Its checksum would be another's; without one the recipe is not checked.
    (version / "manifest.json").unlink()
    step_ms = _milliseconds(_slow(_TRIAL_STEPS)) / _TRIAL_STEPS
    onnx.save(_slow(max(1, round(image_ms / step_ms))), version / "model.onnx")
    return repository


def _slow(steps: int) -> onnx.ModelProto:
    """The small network plus a chain of products whose result, zero, is added to its logits."""
    model = network()
    graph = model.graph
    identity, zeros = np.eye(_SIDE, dtype=np.float32), np.zeros((_SIDE, _SIDE), np.float32)
    for name, value in (("identity", identity), ("zeros", zeros), ("both", np.array([0, 1]))):
        graph.initializer.append(numpy_helper.from_array(value, name))
    (logits,) = (node for node in graph.node if node.op_type == "MatMul")
    logits.output[0] = "raw"
    # The start depends on the picture, so that nothing can be worked out when the file is loaded.
    nodes = [
        helper.make_node("ReduceMean", ["colour", "both"], ["mean_colour"], keepdims=1),
        helper.make_node("Add", ["zeros", "mean_colour"], ["product0"]),
    ]
    for step in range(steps):
        inputs = [f"product{step}", "identity"]
        nodes.append(helper.make_node("MatMul", inputs, [f"product{step + 1}"]))
    nodes += [
        helper.make_node("ReduceMean", [f"product{steps}", "both"], ["same_mean"], keepdims=1),
        helper.make_node("Sub", ["same_mean", "mean_colour"], ["nothing"]),
        helper.make_node("Add", ["raw", "nothing"], ["output"]),
    ]
    graph.node.extend(nodes)
    return model


def _milliseconds(model: onnx.ModelProto) -> float:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    pixels = np.zeros((1, 224, 224, 3), np.uint8)
    times_s = []
    for _ in range(5):
        started = time.perf_counter()
        session.run(None, {"input": pixels})
        times_s.append(time.perf_counter() - started)
    return min(times_s) * 1e3
