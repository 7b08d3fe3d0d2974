"""Triton backend "onnxruntime" in Python: ONNX models on the CPU, where the C++ backend is missing.

Reads the same config.pbtxt as Triton's own ONNX Runtime backend: `default_model_filename`, and
the parameters `intra_op_thread_count` and `inter_op_thread_count` (0 = every core this process
may use, and ONNX Runtime's own choice) and `execution_mode` (0 sequential, 1 parallel).
A model whose configuration and ONNX file disagree is not loaded; the reason is one line that
names the key, what the configuration says and what the ONNX file says.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils

TRITON_TYPES = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
}


class TritonPythonModel:
    """One model instance: a session, and what its configuration says of its tensors."""

    def initialize(self, args):
        """Load the ONNX file; raise TritonModelException where it and the config disagree."""
        config = json.loads(args["model_config"])
        self._name = config["name"]
        self._is_batched = config["max_batch_size"] > 0
        try:
            check_accelerators(config)
            options = session_options(config)
            self._session = open_session(model_file(args, config), options)
            check_tensors(config, self._session)
        except ConfigurationError as error:
            raise pb_utils.TritonModelException(f"{self._name}: {error}") from None
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._strings = {t["name"] for t in config["input"] if t["data_type"] == "TYPE_STRING"}
        self._outputs = [tensor["name"] for tensor in config["output"]]
        pb_utils.Logger.log_info(
            f"{self._name}: ONNX Runtime {onnxruntime.__version__} on the CPU, "
            f"intra_op_thread_count {options.intra_op_num_threads}"
        )

    def execute(self, requests):
        """Return one response per request, in order."""
        return [self._respond(request) for request in requests]

    def _respond(self, request):
        try:
            outputs = self._run(self._feed(request))
        except RequestError as error:
            return _refusal(f"{self._name}: {error}", pb_utils.TritonError.INVALID_ARG)
        except Exception as error:
            # The reason is for the log alone: it may hold paths and names of the graph.
            pb_utils.Logger.log_error(f"{self._name}: {_one_line(error)}")
            return _refusal(f"{self._name}: the model failed", pb_utils.TritonError.INTERNAL)
        wanted = request.requested_output_names()
        tensors = [
            pb_utils.Tensor(name, array)
            for name, array in zip(self._outputs, outputs)
            if name in wanted
        ]
        return pb_utils.InferenceResponse(output_tensors=tensors)

    def _feed(self, request):
        feed = {}
        for name in self._inputs:
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is None:
                raise RequestError(f"the input {name} is missing")
            array = tensor.as_numpy()
            feed[name] = _decoded(name, array) if name in self._strings else array
        return feed

    def _run(self, feed):
        """Return the output arrays of one request, its rows run one by one."""
        if not self._is_batched:
            return self._session.run(self._outputs, feed)
        # A row's result must not depend, to the last bit, on what arrives beside it. ONNX Runtime
        # picks its kernels by shape and CPU, so only a row alone promises that: with 1.32 on an
        # AVX-512 CPU every batch size agreed bit for bit (ResNet50, EfficientNet-B0, MobileNetV3,
        # ViT-B/32), but nothing says that it must. The price is small: on 2 cores a batch of 2-8
        # saves 0-8 % per image (ResNet50) or 0-20 % (EfficientNet-B0), and 32 at once cost 1.2-2.2
        # times as much as one by one, since the activations then leave the CPU's caches.
        row_count = len(feed[self._inputs[0]])
        rows = [
            self._session.run(
                self._outputs, {name: array[row : row + 1] for name, array in feed.items()}
            )
            for row in range(row_count)
        ]
        outputs = [np.concatenate(arrays) for arrays in zip(*rows)]
        if any(len(array) != row_count for array in outputs):
            raise ValueError(f"{row_count} rows in, {[len(array) for array in outputs]} out")
        return outputs


class RequestError(Exception):
    """What is wrong with a request; the message goes to the client."""


class ConfigurationError(Exception):
    """Why a model is not loaded: one line with key, what the config and what the file say."""


def check_accelerators(config):
    """Refuse an execution provider that this backend does not have."""
    accelerators = config.get("optimization", {}).get("execution_accelerators", {})
    names = [each["name"] for each in accelerators.get("cpu_execution_accelerator", [])]
    if names:
        raise ConfigurationError(
            f"cpu_execution_accelerator: config says {', '.join(names)}, this backend has none"
        )


def model_file(args, config):
    """Return the ONNX file of the version to load."""
    name = config.get("default_model_filename") or "model.onnx"
    path = Path(args["model_repository"]) / args["model_version"] / name
    if not path.is_file():
        raise ConfigurationError(
            f"default_model_filename: config says {name}, version folder "
            f"{args['model_version']} holds no such file"
        )
    return path


def session_options(config):
    """Return SessionOptions as the configuration's parameters say."""
    parameters = config.get("parameters", {})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = (
        _whole_number(parameters, "intra_op_thread_count") or available_cores()
    )
    # Waiting threads would burn the cores that the Python stages need: with one busy neighbour
    # on 2 cores, spinning made ResNet50 1.5 times and EfficientNet-B0 3 times slower.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.inter_op_num_threads = _whole_number(parameters, "inter_op_thread_count")
    if _whole_number(parameters, "execution_mode", allowed=(0, 1)):
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    return options


def _whole_number(parameters, key, allowed=None):
    text = parameters.get(key, {}).get("string_value", "0")
    number = int(text) if re.fullmatch(r"\d{1,4}", text) else None
    if number is None or (allowed and number not in allowed):
        choice = " or ".join(map(str, allowed)) if allowed else "a whole number from 0"
        raise ConfigurationError(f"parameters {key}: config says {text!r}, allowed is {choice}")
    return number


def available_cores():
    """Return the number of cores this process may use: its affinity, cut by a cgroup's quota."""
    cores = len(os.sched_getaffinity(0))
    for quota_us, period_us in _cgroup_quotas():
        cores = min(cores, max(1, math.ceil(quota_us / period_us)))
    return cores


def _cgroup_quotas(root=Path("/sys/fs/cgroup")):
    version_1 = [root / "cpu" / f"cpu.cfs_{part}_us" for part in ("quota", "period")]
    for files in ([root / "cpu.max"], version_1):
        try:
            quota, period = " ".join(path.read_text() for path in files).split()
        except (OSError, ValueError):
            continue
        if quota not in ("max", "-1"):
            yield int(quota), int(period)


# What ONNX Runtime says when it cannot read a file, and what to make of it.
_LOAD_FAILURES = (
    (
        r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
        "ir_version: ONNX says {0}, onnxruntime {version} reads up to {1}",
    ),
    (
        r"Opset (\d+) is under development.*official support for domain (\S+) is till opset (\d+)",
        "opset_import: ONNX says {0} for {1}, onnxruntime {version} reads up to {2}",
    ),
    (
        # onnxruntime 1.32 names the path in quotes, 1.19 to 1.23 in brackets.
        r"(?:does not exist: |No such file or directory )[\[\"](?:.*/)?([^/\]\"]+)[\]\"]",
        "external data: ONNX says {0}, the version folder holds no such file",
    ),
)


def open_session(path, options):
    """Return an InferenceSession on the CPU, or raise with one line that says why not."""
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = _one_line(error)
        for pattern, message in _LOAD_FAILURES:
            found = re.search(pattern, reason)
            if found:
                detail = message.format(*found.groups(), version=onnxruntime.__version__)
                raise ConfigurationError(f"{path.name}: {detail}") from None
        raise ConfigurationError(
            f"{path.name}: onnxruntime {onnxruntime.__version__} cannot load it: {reason}"
        ) from None


def check_tensors(config, session):
    """Refuse tensors whose name, type, rank or fixed sizes differ from those of the graph."""
    for kind, graph_tensors in (("input", session.get_inputs()), ("output", session.get_outputs())):
        graph = {tensor.name: tensor for tensor in graph_tensors}
        names = [tensor["name"] for tensor in config[kind]]
        unknown = [name for name in names if name not in graph]
        # A graph's outputs may stay unused, its inputs may not.
        unset = [name for name in graph if name not in names] if kind == "input" else []
        if unknown or unset:
            raise ConfigurationError(
                f"{kind} name: config says {', '.join(names)}, ONNX says {', '.join(graph)}"
            )
        for tensor in config[kind]:
            _check_tensor(kind, tensor, graph[tensor["name"]], config["max_batch_size"])


def _check_tensor(kind, tensor, graph_tensor, max_batch_size):
    where = f"{kind} {tensor['name']}"
    graph_type = TRITON_TYPES.get(graph_tensor.type, graph_tensor.type)
    if tensor["data_type"] != graph_type:
        raise ConfigurationError(
            f"{where} data_type: config says {tensor['data_type']}, ONNX says {graph_type}"
        )
    sizes = graph_tensor.shape
    if not sizes:  # a scalar, or a shape that the graph does not tell
        return
    if max_batch_size > 0 and isinstance(sizes[0], int):
        raise ConfigurationError(
            f"max_batch_size: config says {max_batch_size}, ONNX says a batch of exactly "
            f"{sizes[0]} for {where} (export it with a dynamic batch, or set max_batch_size: 0)"
        )
    source = tensor.get("reshape", {}).get("shape", tensor["dims"])
    dims = [int(size) for size in source]
    expected = sizes[1:] if max_batch_size > 0 else sizes
    agrees = len(dims) == len(expected) and all(
        size == dim for dim, size in zip(dims, expected) if isinstance(size, int)
    )
    if not agrees:
        batch = " after the batch" if max_batch_size > 0 else ""
        shown = ", ".join(str(size) if isinstance(size, int) else "-1" for size in expected)
        raise ConfigurationError(f"{where} dims: config says {dims}, ONNX says [{shown}]{batch}")


def _decoded(name, values):
    try:
        texts = [value.decode("utf-8") for value in values.ravel()]
    except UnicodeDecodeError:
        raise RequestError(f"the input {name} holds text that is not UTF-8") from None
    return np.array(texts, dtype=object).reshape(values.shape)


def _refusal(message, code):
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def _one_line(error):
    return " ".join(str(error).split())
