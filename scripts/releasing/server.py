"""The running server, over gRPC: repository control, versions side by side, plain inference.

Control goes over gRPC for the clients' sake: Triton answers an HTTP load on one of its few HTTP
threads, and every connection that this thread also serves waits for as long as the load takes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from google.protobuf import json_format
from tritonclient import grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from client.errors import one_line
from embedded.admin_key import ADMIN_KEY_HEADER
from engine import EnvironmentProblem
from releasing import ReleaseRefused

CALL_TIMEOUT_S = 30.0
# A TensorRT plan or a large ONNX file; what takes longer has hung.
LOAD_TIMEOUT_S = 300.0
START = "make serve, or docker compose up -d"


def read_key(file: Path) -> str:
    """The admin key; EnvironmentProblem where there is none."""
    try:
        key = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise EnvironmentProblem(
            f"no admin key: {file}: {error.strerror}; run `make secrets`, restart the server"
        ) from None
    if not key:
        raise EnvironmentProblem(f"the admin key file {file} is empty: make secrets")
    return key


class Server:
    """One Triton server and its admin key. ``loading_s`` adds up the time that loads took."""

    def __init__(self, address: str, key: str) -> None:
        self.address = address
        self.loading_s = 0.0
        self._headers = {f"triton-grpc-protocol-{ADMIN_KEY_HEADER}": key}
        # A proxy of the environment has no business between this tool and its server.
        unlimited = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
        channel = [("grpc.enable_http_proxy", 0), *unlimited]
        self._client = triton_grpc.InferenceServerClient(address, channel_args=channel)

    def check(self) -> None:
        """EnvironmentProblem unless the server answers and takes the key."""
        self._ask(self._client.is_server_live)
        self._ask(self._client.get_model_repository_index, headers=self._headers)

    def config(self, model: str) -> dict[str, Any]:
        """The configuration that the server holds for a model, in the form that load takes."""
        answer = self._ask(self._client.get_model_config, model)
        return as_json(answer.config)

    def loaded(self, model: str) -> list[int]:
        """The versions of a model that take requests."""
        index = self._ask(self._client.get_model_repository_index, headers=self._headers)
        return sorted(
            int(entry.version)
            for entry in index.models
            if entry.name == model and entry.state == "READY"
        )

    def load(self, model: str, config: Mapping[str, Any] | None = None) -> None:
        """Load what changed, or with another configuration; ReleaseRefused with Triton's reason."""
        started = time.monotonic()
        override = json.dumps(config) if config is not None else None
        try:
            self._ask(
                self._client.load_model,
                model,
                headers=self._headers,
                config=override,
                client_timeout=LOAD_TIMEOUT_S,
            )
        finally:
            self.loading_s += time.monotonic() - started

    def infer(
        self, model: str, inputs: Mapping[str, np.ndarray], version: int | None = None
    ) -> dict[str, np.ndarray]:
        """All outputs of one request; the newest version where none is named."""
        tensors = []
        for name, array in inputs.items():
            kind = {"u": "UINT8", "f": "FP32", "i": "INT64", "O": "BYTES"}[array.dtype.kind]
            tensors.append(triton_grpc.InferInput(name, list(array.shape), kind))
            tensors[-1].set_data_from_numpy(array)
        named = "" if version is None else str(version)
        answer = self._ask(self._client.infer, model, tensors, model_version=named)
        outputs = [output.name for output in answer.get_response().outputs]
        return {name: answer.as_numpy(name) for name in outputs}

    def classify(
        self, ensemble: str, images: Sequence[bytes], parameters: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """One result object per image, through the ensemble."""
        tensor = triton_grpc.InferInput("RAW_IMAGE", [len(images), 1], "BYTES")
        tensor.set_data_from_numpy(texts(images))
        answer = self._ask(self._client.infer, ensemble, [tensor], parameters=dict(parameters))
        return [json.loads(text) for text in answer.as_numpy("OUTPUT_RESULTS").reshape(-1)]

    def images_done(self, model: str, version: int) -> int:
        """How many images a version has run since it was loaded."""
        answer = self._ask(self._client.get_inference_statistics, model, str(version))
        return sum(int(entry.inference_count) for entry in answer.model_stats)

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()

    def _ask(self, call: Any, *arguments: Any, **options: Any) -> Any:
        options.setdefault("client_timeout", CALL_TIMEOUT_S)
        try:
            return call(*arguments, **options)
        except InferenceServerException as error:
            raise self._translated(error) from None

    def _translated(self, error: InferenceServerException) -> Exception:
        text = one_line(error.message())
        if "restricted" in text:
            return EnvironmentProblem(
                f"the server at {self.address} refuses the admin key: use the key it was started "
                "with (--key-file), or restart it after `make secrets`"
            )
        lost = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        if error.status() in {str(code) for code in lost}:
            return EnvironmentProblem(
                f"no answer from the gRPC port of a server at {self.address}: start it ({START}), "
                f"or name another --grpc-url ({text})"
            )
        return ReleaseRefused(f"the server refuses: {text}")


def texts(values: Sequence[bytes]) -> np.ndarray:
    """STRING tensor [N,1]; dtype object, since numpy's own bytes type drops trailing zeros."""
    tensor = np.empty((len(values), 1), dtype=np.object_)
    tensor[:, 0] = list(values)
    return tensor


def as_json(config: Any) -> dict[str, Any]:
    """A model configuration's protobuf message as load takes it."""
    found: dict[str, Any] = json_format.MessageToDict(config, preserving_proto_field_name=True)
    return found
