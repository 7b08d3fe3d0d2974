"""Triton requests ↔ numpy and bytes, and what Triton says of a model.

The only module that touches Triton's Python API. Whatever happens inside, ``attempt`` turns it into
one response: a missing, extra or raised response would fail every request of the same call.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from common import manifest
from common.errors import ConfigurationError, RequestError
from common.metrics import StageMetrics

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Model:
    """What Triton says of a model when it loads it."""

    name: str
    version: str
    folder: Path
    parameters: Mapping[str, str]
    inputs: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Mapping[str, Any]]

    @classmethod
    def from_args(cls, args: Mapping[str, str]) -> Model:
        """Read what ``initialize`` got, and let ``common``'s log lines reach the server's log."""
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
        """Where this version's files lie."""
        return self.folder / self.version

    def metrics(self) -> StageMetrics:
        """This process's metrics; call it once, last in ``initialize``."""
        return StageMetrics(pb_utils, self.name, self.version)

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


def input_array(request: Any, name: str) -> np.ndarray:
    """An input tensor of a request; raises RequestError where it is missing."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        raise RequestError(name, None, "a tensor, which is missing")
    array: np.ndarray = tensor.as_numpy()
    return array


def strings(values: Any) -> np.ndarray:
    """STRING tensor [N,1]; dtype object, since numpy's own bytes type drops trailing zeros."""
    return np.array(list(values), dtype=object).reshape(-1, 1)


def response(**tensors: np.ndarray) -> Any:
    """A response with these output tensors."""
    return pb_utils.InferenceResponse([pb_utils.Tensor(n, array) for n, array in tensors.items()])


def send(sender: Any, response: Any) -> None:
    """Send the one response of a request that ``execute`` left open."""
    sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def unavailable(reason: str) -> Any:
    """A response that is HTTP 503: the client may try again."""
    return pb_utils.InferenceResponse(
        error=pb_utils.TritonError(reason, pb_utils.TritonError.UNAVAILABLE)
    )


def attempt(answer: Callable[..., Any], *arguments: Any) -> Any:
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
def refusing_bad_configuration() -> Iterator[None]:
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
