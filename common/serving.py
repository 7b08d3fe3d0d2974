"""Triton requests ↔ numpy and bytes: the only module that answers requests.

One response per request by construction, whatever happens inside: a missing, extra or raised
response would fail every request of the same call.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from common import manifest
from common.errors import ConfigurationError, RequestError
from common.metrics import StageMetrics
from common.parameters import PreprocessConfig, parse_postprocess, parse_preprocess
from common.postprocess.postprocessor import Answer, Postprocessor
from common.preprocess.preprocessor import ImageReport, Preprocessor

log = logging.getLogger(__name__)


class PreprocessStage:
    """RAW_IMAGE STRING [N,1] → PREPROCESSED_IMAGE, IMAGE_STATUS STRING, RECEIVED_NS INT64 [N,1]."""

    def __init__(self, args: Mapping[str, str]) -> None:
        model = _Model.from_args(args)
        with _refusing_bad_configuration():
            config = parse_preprocess(model.parameters, model.outputs["PREPROCESSED_IMAGE"])
            served = model.served_manifest()
            _check_recipe(config, served)
            self._preprocessor = Preprocessor(config)
        self._pending = _Pending(config.max_pending_images, config.max_pending_bytes)
        self._metrics = StageMetrics(pb_utils, model.name, model.version)
        self._metrics.build_info(**_build(config, served))

    def execute(self, requests: Sequence[Any]) -> None:
        """Start on the requests; each is answered from the thread that ends its last image.

        Answering later through the response sender keeps this process free for the next request:
        one process then uses every core, and a slow picture holds up nobody else.
        """
        for request in requests:
            self._start(request, request.get_response_sender())

    def _start(self, request: Any, sender: Any) -> None:
        started, received_ns = time.perf_counter(), time.monotonic_ns()

        elements = _attempt(_elements, request)
        if not isinstance(elements, list):
            _send(sender, elements)
            return
        size_bytes = sum(map(len, elements))
        refusal = self._pending.acquire(len(elements), size_bytes)
        if refusal:
            _send(sender, _unavailable(refusal))
            return

        def finish(batch: np.ndarray, reports: list[ImageReport]) -> None:
            try:
                _send(sender, _attempt(_preprocessed, batch, reports, received_ns))
            except Exception:
                log.exception("an answer could not be sent")
            finally:
                self._pending.release(len(reports), size_bytes)
            self._observe(reports, time.perf_counter() - started)

        self._preprocessor.submit(elements, finish)

    def _observe(self, reports: Sequence[ImageReport], duration_s: float) -> None:
        for report in reports:
            self._metrics.input(report.input_bytes, report.pixels / 1e6 if report.pixels else None)
            if report.error is None:
                self._metrics.preprocess_steps(report.decode_s, report.resize_s, report.normalise_s)
            else:
                self._metrics.image_error(report.error.code)
        self._metrics.stage_done(duration_s)

    def close(self) -> None:
        """Finish what is queued."""
        self._preprocessor.close()
        self._metrics.close()


class PostprocessStage:
    """LOGITS FP32 [N,C], IMAGE_STATUS, RECEIVED_NS → OUTPUT_RESULTS STRING [N,1]."""

    def __init__(self, args: Mapping[str, str]) -> None:
        model = _Model.from_args(args)
        with _refusing_bad_configuration():
            class_count = int(model.inputs["LOGITS"]["dims"][0])
            config = parse_postprocess(model.parameters)
            self._postprocessor = Postprocessor(config, model.version_folder, class_count)
        self._metrics = StageMetrics(pb_utils, model.name, model.version)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests, each with its own options."""
        return [_attempt(self._answer, request) for request in requests]

    def _answer(self, request: Any) -> Any:
        started = time.perf_counter()
        try:
            options = self._postprocessor.options(json.loads(request.parameters() or "{}"))
        except RequestError:
            self._metrics.request_refused()
            raise
        logits = _input(request, "LOGITS")
        statuses = [status.decode() for status in _input(request, "IMAGE_STATUS").reshape(-1)]
        answers = self._postprocessor(logits, statuses, options)
        self._observe(answers, int(_input(request, "RECEIVED_NS").min()))
        self._metrics.stage_done(time.perf_counter() - started)
        return _response(OUTPUT_RESULTS=_strings(answer.text for answer in answers))

    def _observe(self, answers: Sequence[Answer], received_ns: int) -> None:
        for answer in answers:
            if answer.arose_here and answer.error_code:
                self._metrics.image_error(answer.error_code)
            if answer.top1_probability is not None:
                self._metrics.top1_confidence(answer.top1_probability)
        empty = sum(a.error_code is None and a.predictions == 0 for a in answers)
        if empty:
            self._metrics.below_threshold(empty)
        end_to_end_s = (time.monotonic_ns() - received_ns) / 1e9
        self._metrics.request_done([a.error_code or "" for a in answers], end_to_end_s)

    def close(self) -> None:
        """Finish what is queued."""
        self._metrics.close()


class _Pending:
    """Counts what waits or is worked on; what comes on top of a limit is refused.

    So is everything as soon as the file exists that ``TRITON_DRAIN_FILE`` names: the server is
    about to stop, and connections that are kept open would else bring requests to the last.
    """

    def __init__(self, max_images: int, max_bytes: int) -> None:
        self._max_images, self._max_bytes = max_images, max_bytes
        self._drain_file = os.environ.get("TRITON_DRAIN_FILE", "")
        self._lock = threading.Lock()
        self._images = self._bytes = 0

    def acquire(self, images: int, size_bytes: int) -> str:
        """Why so much more may not come in, or nothing; a request that comes alone always may."""
        if self._drain_file and os.path.exists(self._drain_file):
            return "shutting down; try another server, or again later"
        with self._lock:
            if self._images and self._images + images > self._max_images:
                return f"overloaded: {self._max_images} images are waiting; try again later"
            if self._images and self._bytes + size_bytes > self._max_bytes:
                return f"overloaded: {self._max_bytes} bytes are waiting; try again later"
            self._images += images
            self._bytes += size_bytes
        return ""

    def release(self, images: int, size_bytes: int) -> None:
        with self._lock:
            self._images -= images
            self._bytes -= size_bytes


@dataclass(frozen=True)
class _Model:
    """What Triton says of a model when it loads it."""

    name: str
    version: str
    folder: Path
    parameters: Mapping[str, str]
    inputs: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Mapping[str, Any]]

    @classmethod
    def from_args(cls, args: Mapping[str, str]) -> _Model:
        _log_through_triton()
        config = json.loads(args["model_config"])
        return cls(
            config["name"],
            args["model_version"],
            Path(args["model_repository"]),
            {key: value["string_value"] for key, value in config["parameters"].items()},
            {tensor["name"]: tensor for tensor in config["input"]},
            {tensor["name"]: tensor for tensor in config["output"]},
        )

    @property
    def version_folder(self) -> Path:
        return self.folder / self.version

    def served_manifest(self) -> dict[str, Any] | None:
        """The manifest of the pipeline's newest inference version; None for a model without one."""
        inference = self.folder.parent / f"{self.name.rpartition('_')[0]}_inference"
        versions = [int(f.name) for f in inference.glob("[1-9]*") if f.name.isdigit()]
        if not versions:
            return None
        path = inference / str(max(versions)) / manifest.MANIFEST_NAME
        if not path.exists():
            log.warning("no manifest beside the model: the recipe is not checked")
            return None
        return manifest.read(path)


def _check_recipe(config: PreprocessConfig, served: Mapping[str, Any] | None) -> None:
    if served is None:
        return
    configured = manifest.Recipe(
        config.resize_size,
        config.crop_size,
        config.resize_mode,
        config.mean or (),
        config.std or (),
        config.mean is None,
    )
    differences = manifest.recipe_of(served).differences(configured)
    if differences:
        raise manifest.ManifestError(
            f"the recipe contradicts the model's manifest.json: {'; '.join(differences)}"
        )


def _build(config: PreprocessConfig, served: Mapping[str, Any] | None) -> dict[str, str]:
    served = served or {"weights": {}, "onnx": {}}
    return {
        "git": os.environ.get("GIT_REVISION", ""),
        "config": os.environ.get("MODEL_CONFIG", ""),
        "weights": str(served["weights"].get("name", "")),
        "onnx_sha256": str(served["onnx"].get("sha256", "")),
        "recipe": f"{config.resize_mode} {config.resize_size}/{config.crop_size}",
    }


def _elements(request: Any) -> list[bytes]:
    return list(_input(request, "RAW_IMAGE").reshape(-1))


def _preprocessed(batch: np.ndarray, reports: Sequence[ImageReport], received_ns: int) -> Any:
    return _response(
        PREPROCESSED_IMAGE=batch,
        IMAGE_STATUS=_strings(r.error.status.encode() if r.error else b"" for r in reports),
        RECEIVED_NS=np.full((len(reports), 1), received_ns, np.int64),
    )


def _input(request: Any, name: str) -> np.ndarray:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        raise RequestError(name, None, "a tensor, which is missing")
    array: np.ndarray = tensor.as_numpy()
    return array


def _strings(values: Any) -> np.ndarray:
    """STRING tensor [N,1]; dtype object, since numpy's own bytes type drops trailing zeros."""
    return np.array(list(values), dtype=object).reshape(-1, 1)


def _response(**tensors: np.ndarray) -> Any:
    return pb_utils.InferenceResponse([pb_utils.Tensor(n, array) for n, array in tensors.items()])


def _send(sender: Any, response: Any) -> None:
    sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _unavailable(reason: str) -> Any:
    return pb_utils.InferenceResponse(
        error=pb_utils.TritonError(reason, pb_utils.TritonError.UNAVAILABLE)
    )


def _attempt(answer: Callable[..., Any], *arguments: Any) -> Any:
    """What ``answer`` returns, or a response with the error: nothing else leaves a request."""
    try:
        return answer(*arguments)
    except RequestError as error:
        fault = pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
    except Exception:
        log.exception("answering a request failed")
        fault = pb_utils.TritonError("internal error; see the server log")
    return pb_utils.InferenceResponse(error=fault)


@contextlib.contextmanager
def _refusing_bad_configuration() -> Iterator[None]:
    """Turns configuration faults into one line in the server log and in the load API's answer."""
    try:
        yield
    except (ConfigurationError, manifest.ManifestError) as error:
        raise pb_utils.TritonModelException(str(error)) from None


class _TritonLog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        is_error = record.levelno >= logging.ERROR
        write = pb_utils.Logger.log_error if is_error else pb_utils.Logger.log_warn
        write(self.format(record))


def _log_through_triton() -> None:
    logger = logging.getLogger("common")
    if not logger.handlers:
        logger.addHandler(_TritonLog())
        logger.propagate = False
