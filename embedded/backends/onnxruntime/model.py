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
# Rows that go through the graph at once. Measured on 2 cores (ONNX Runtime 1.32): per image,
# 2-4 rows cost 0.8-1.0 of what a row alone costs, and 16-32 rows 1.0-2.2 of it, because the
# activations then leave the CPU's caches.
ROWS_PER_RUN = 4


class TritonPythonModel:
    """One model instance: a session, and what its configuration says of its tensors."""

    def initialize(self, args):
        """Load the ONNX file; raise TritonModelException where it and the config disagree."""
        config = json.loads(args["model_config"])
        self._name = config["name"]
        self._is_batched = config["max_batch_size"] > 0
        try:
            check_device(args, config)
            self._session = open_session(model_file(args, config), session_options(config))
            check_tensors(config, self._session)
        except ConfigurationError as error:
            raise pb_utils.TritonModelException(f"{self._name}: {error}") from None
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._strings = {t["name"] for t in config["input"] if t["data_type"] == "TYPE_STRING"}
        self._outputs = [tensor["name"] for tensor in config["output"]]
        self._rows_per_run = 1
        if self._is_batched and rows_do_not_depend_on_neighbours(self._session, self._outputs):
            self._rows_per_run = ROWS_PER_RUN
        pb_utils.Logger.log_info(
            f"{self._name}: ONNX Runtime {onnxruntime.__version__} on the CPU, "
            f"rows per run: {self._rows_per_run if self._is_batched else 'all'}"
        )

    def execute(self, requests):
        """Return one response per request, in order."""
        responses = [None] * len(requests)
        groups = {}
        for index, request in enumerate(requests):
            try:
                feed = self._feed(request)
            except pb_utils.TritonModelException as error:
                responses[index] = _refusal(str(error), pb_utils.TritonError.INVALID_ARG)
                continue
            groups.setdefault(self._group_key(index, feed), []).append((index, feed))
        for members in groups.values():
            indices, feeds = zip(*members)
            for index, outputs in zip(indices, self._run_group(feeds)):
                responses[index] = self._response(requests[index], outputs)
        return responses

    def _feed(self, request):
        feed = {}
        for name in self._inputs:
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is None:
                raise pb_utils.TritonModelException(f"{self._name} needs the input {name}")
            feed[name] = tensor.as_numpy()
            if name in self._strings:
                feed[name] = self._decoded(name, feed[name])
        return feed

    def _decoded(self, name, values):
        try:
            texts = [value.decode("utf-8") for value in values.ravel()]
        except UnicodeDecodeError:
            message = f"{self._name}: input {name} holds text that is not UTF-8"
            raise pb_utils.TritonModelException(message) from None
        return np.array(texts, dtype=object).reshape(values.shape)

    def _group_key(self, index, feed):
        """Requests of one key run together: those whose rows have the same shapes."""
        if not self._is_batched:
            return index
        return tuple(array.shape[1:] for array in feed.values())

    def _run_group(self, feeds):
        """Return a list of output arrays for each feed, or None for a feed that fails."""
        try:
            if not self._is_batched:
                return [self._session.run(self._outputs, feeds[0])]
            return self._run_rows(feeds)
        except Exception as error:
            if len(feeds) == 1:
                # The reason is for the log alone: it may hold paths and node names.
                pb_utils.Logger.log_error(f"{self._name}: {_one_line(error)}")
                return [None]
        # One of several failed: alone, the others get their answers.
        return [outputs for feed in feeds for outputs in self._run_group([feed])]

    def _run_rows(self, feeds):
        joined = {name: np.concatenate([feed[name] for feed in feeds]) for name in self._inputs}
        row_counts = [len(feed[self._inputs[0]]) for feed in feeds]
        outputs = run_in_slices(
            self._session, self._outputs, joined, sum(row_counts), self._rows_per_run
        )
        ends = np.cumsum(row_counts)
        return list(zip(*(np.split(array, ends[:-1]) for array in outputs)))

    def _response(self, request, outputs):
        if outputs is None:
            return _refusal(f"{self._name} could not run", pb_utils.TritonError.INTERNAL)
        wanted = set(request.requested_output_names())
        tensors = [
            pb_utils.Tensor(name, np.ascontiguousarray(array))
            for name, array in zip(self._outputs, outputs)
            if name in wanted
        ]
        return pb_utils.InferenceResponse(output_tensors=tensors)


class ConfigurationError(Exception):
    """Why a model is not loaded: one line with key, what the config and what the file say."""


def check_device(args, config):
    """Refuse what this backend cannot honour: GPUs and other execution providers."""
    if args.get("model_instance_kind") == "GPU":
        raise ConfigurationError(
            "instance_group: config says KIND_GPU, this backend runs on the CPU only "
            "(start the server with --model-config-name=cpu)"
        )
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
        r"External data path.*?([^/\\\s\"']+?)['\"]?(?: does not exist|,|$)",
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


def run_in_slices(session, outputs, feed, row_count, rows_per_run):
    """Return the output arrays of `row_count` rows that pass `rows_per_run` at a time."""
    parts = []
    for start in range(0, row_count, rows_per_run):
        rows = {name: array[start : start + rows_per_run] for name, array in feed.items()}
        expected = min(rows_per_run, row_count - start)
        part = session.run(outputs, rows)
        if any(array.shape[:1] != (expected,) for array in part):
            raise RuntimeError(f"{expected} rows in, {[array.shape for array in part]} out")
        parts.append(part)
    return [np.concatenate(arrays) for arrays in zip(*parts)]


def rows_do_not_depend_on_neighbours(session, outputs):
    """Say whether rows get bit for bit the same together as alone, tried on random rows.

    ONNX Runtime picks its kernels by shape and CPU, and their sums may differ in the last bit.
    An image's result must not depend on what else arrives: where this trial fails or cannot be
    made (text, sizes that vary), every row runs alone. So far every network tried passed it.
    """
    random = np.random.default_rng(0)
    try:
        feed = {t.name: _random_rows(t, random) for t in session.get_inputs()}
        alone = run_in_slices(session, outputs, feed, ROWS_PER_RUN, 1)
        for count in range(2, ROWS_PER_RUN + 1):
            first = {name: array[:count] for name, array in feed.items()}
            together = run_in_slices(session, outputs, first, count, count)
            if any(a[:count].tobytes() != b.tobytes() for a, b in zip(alone, together)):
                return False
    except Exception:  # whatever the graph does not like about random rows
        return False
    return True


def _random_rows(graph_tensor, random):
    shape = [ROWS_PER_RUN, *(int(size) for size in graph_tensor.shape[1:])]
    dtype = np.dtype(pb_utils.triton_string_to_numpy(TRITON_TYPES[graph_tensor.type]))
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    # Wider integers are indices or masks more often than pixels.
    return random.integers(0, 256 if dtype == np.uint8 else 2, shape).astype(dtype)


def _refusal(message, code):
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def _one_line(error):
    return " ".join(str(error).split())
