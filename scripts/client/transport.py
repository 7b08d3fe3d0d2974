"""The two wires to Triton, over tritonclient, with one set of errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from tritonclient.utils import InferenceServerException

from client.address import CONNECT_TIMEOUT_S, GRPC, Address
from client.errors import RequestRefused, ServerFailed, ServerUnreachable, Transient, one_line

T = TypeVar("T")

INPUT_NAME = "RAW_IMAGE"
OUTPUT_NAME = "OUTPUT_RESULTS"

# A gateway in front of Triton answers 502 and 504 while its backend restarts.
_TRANSIENT = {"429", "502", "503", "504", "StatusCode.UNAVAILABLE"}
_TIMEOUT = {"StatusCode.DEADLINE_EXCEEDED"}
_REFUSED = {
    "StatusCode.INVALID_ARGUMENT",
    "StatusCode.NOT_FOUND",
    "StatusCode.UNIMPLEMENTED",
    "StatusCode.RESOURCE_EXHAUSTED",
    "StatusCode.PERMISSION_DENIED",
    "StatusCode.UNAUTHENTICATED",
    "StatusCode.FAILED_PRECONDITION",
    "StatusCode.OUT_OF_RANGE",
}

Parameters = Mapping[str, str | int | float | bool]


class Transport(Protocol):
    """One wire; both methods raise the errors of client.errors."""

    def config(self, model: str) -> Mapping[str, Any]:
        """The model's configuration as the server holds it."""

    def infer(self, model: str, images: Sequence[bytes], parameters: Parameters) -> list[bytes]:
        """One result text per image, as the server wrote it."""

    def close(self) -> None:
        """Give the connection back."""


def open_transport(address: Address, timeout_s: float) -> Transport:
    """A wire to the address; it connects with the first call. Not for use by several threads."""
    if address.protocol == GRPC:
        return _Grpc(address, timeout_s)
    return _Http(address, timeout_s)


class _Http:
    def __init__(self, address: Address, timeout_s: float) -> None:
        from tritonclient import http

        self._library, self._address, self._timeout_s = http, address, timeout_s
        self._client = http.InferenceServerClient(
            address.target,
            ssl=address.encrypted,
            connection_timeout=CONNECT_TIMEOUT_S,
            network_timeout=timeout_s,
        )

    def config(self, model: str) -> Mapping[str, Any]:
        return self._ask(lambda: self._client.get_model_config(model))

    def infer(self, model: str, images: Sequence[bytes], parameters: Parameters) -> list[bytes]:
        tensor = self._library.InferInput(INPUT_NAME, [len(images), 1], "BYTES")
        tensor.set_data_from_numpy(_as_tensor(images))
        outputs = [self._library.InferRequestedOutput(OUTPUT_NAME)]
        answer = self._ask(
            lambda: self._client.infer(model, [tensor], outputs=outputs, parameters=parameters)
        )
        return _texts(answer, len(images))

    def _ask(self, call: Callable[[], T]) -> T:
        from geventhttpclient.response import HTTPParseError

        try:
            return call()
        except InferenceServerException as error:
            raise _translated(error, self._address) from None
        except TimeoutError:
            raise _too_slow(self._address, self._timeout_s) from None
        except (OSError, HTTPParseError) as error:
            cause = one_line(error) or type(error).__name__
            if "Expected HTTP" in cause:
                raise ServerUnreachable(
                    f"what listens at {self._address} speaks no HTTP: is it the gRPC port?"
                ) from None
            raise Transient(f"the connection to {self._address} broke ({cause})") from None

    def close(self) -> None:
        self._client.close()


class _Grpc:
    def __init__(self, address: Address, timeout_s: float) -> None:
        from tritonclient import grpc

        self._library, self._address, self._timeout_s = grpc, address, timeout_s
        # A proxy from the environment would go round the address that client.address found open.
        channel = [("grpc.enable_http_proxy", 0), *_unlimited()]
        self._client = grpc.InferenceServerClient(
            address.target, ssl=address.encrypted, channel_args=channel
        )

    def config(self, model: str) -> Mapping[str, Any]:
        def call() -> Mapping[str, Any]:
            answer = self._client.get_model_config(
                model, as_json=True, client_timeout=self._timeout_s
            )
            return answer["config"]

        return self._ask(call)

    def infer(self, model: str, images: Sequence[bytes], parameters: Parameters) -> list[bytes]:
        tensor = self._library.InferInput(INPUT_NAME, [len(images), 1], "BYTES")
        tensor.set_data_from_numpy(_as_tensor(images))
        outputs = [self._library.InferRequestedOutput(OUTPUT_NAME)]
        answer = self._ask(
            lambda: self._client.infer(
                model,
                [tensor],
                outputs=outputs,
                parameters=parameters,
                client_timeout=self._timeout_s,
            )
        )
        return _texts(answer, len(images))

    def _ask(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except InferenceServerException as error:
            if error.status() in _TIMEOUT:
                raise _too_slow(self._address, self._timeout_s) from None
            raise _translated(error, self._address) from None

    def close(self) -> None:
        self._client.close()


def _unlimited() -> list[tuple[str, int]]:
    """tritonclient sets these itself only where it is given no channel arguments."""
    return [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def _as_tensor(images: Sequence[bytes]) -> np.ndarray:
    """STRING tensor [N,1]; dtype object, since numpy's own bytes type drops trailing zeros."""
    tensor = np.empty((len(images), 1), dtype=np.object_)
    tensor[:, 0] = images
    return tensor


def _texts(answer: Any, count: int) -> list[bytes]:
    texts = answer.as_numpy(OUTPUT_NAME)
    found = 0 if texts is None else texts.size
    if found != count:
        raise ServerFailed(f"the server gave {found} results for {count} images")
    return list(texts.reshape(-1))


def _too_slow(address: Address, timeout_s: float) -> ServerUnreachable:
    return ServerUnreachable(
        f"{address} gave no answer within {timeout_s:g} s: see the server's log, or raise --timeout"
    )


def _translated(error: InferenceServerException, address: Address) -> Exception:
    status = error.status() or ""
    text = one_line(error.message())
    shown = f"HTTP {status}" if status.isdigit() else status.removeprefix("StatusCode.")
    if status.isdigit() and error.debug_details() is not None:
        # tritonclient found no JSON in the answer's body.
        text = "not in Triton's words, so a gateway or something else answers there"
    if status in _TRANSIENT:
        return Transient(f"{address} is not available ({shown}): {text}")
    if status.startswith("4") or status in _REFUSED or not status:
        return RequestRefused(f"{address} refused the request ({shown or 'client'}): {text}")
    return ServerFailed(f"the server failed the request ({shown}): {text}")
