"""A connection to one ensemble: any number of images in, one outcome per image out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from client.address import knock, parse
from client.errors import SERVER_ERROR, RequestRefused, ServerFailed, one_line
from client.retry import DEFAULT_RETRIES, OnRetry, Retrying
from client.transport import INPUT_NAME, OUTPUT_NAME, Transport, open_transport

DEFAULT_MODEL = "resnet50_ensemble"
DEFAULT_TIMEOUT_S = 60.0
# Below Triton's default limit of an HTTP request, 64 MiB, with room for the headers.
MAX_REQUEST_BYTES = 60 << 20


@dataclass(frozen=True)
class Outcome:
    """What became of one image: the server's JSON, or SERVER_ERROR in the same form.

    ``latency_ms`` is the wall time of the request that carried the image, or None where none did.
    """

    result: Mapping[str, Any]
    latency_ms: float | None

    @property
    def error(self) -> str | None:
        """The error code, or None for an image that was classified."""
        return self.result.get("error")

    @property
    def predictions(self) -> list[dict[str, Any]]:
        """Ranked ``{"class_id", "class", "confidence"[, "group"]}``, whatever the layout."""
        result = self.result
        if "predictions" in result:
            rows = result["predictions"]
            return [{"class_id": row.get("classId"), **row} for row in rows]
        ids = result.get("class_ids", result.get("classIds", []))
        columns = zip(ids, result.get("classes", []), result.get("confidences", []))
        return [{"class_id": i, "class": name, "confidence": p} for i, name, p in columns]


def failed(code: str, message: str, latency_ms: float | None = None) -> Outcome:
    """An outcome that the client itself has to report, in the form of the server's own."""
    return Outcome({"error": code, "message": message}, latency_ms)


class Classifier:
    """One ensemble on one server; not for use by several threads. Made by :func:`connect`."""

    def __init__(self, transport: Transport, model: str, retrying: Retrying) -> None:
        self.model = model
        self._transport = transport
        self._retrying = retrying
        self.max_batch_size = self._limit()

    def _limit(self) -> int:
        config = self._retrying(lambda: self._transport.config(self.model))
        inputs = {tensor["name"] for tensor in config.get("input", [])}
        outputs = {tensor["name"] for tensor in config.get("output", [])}
        if INPUT_NAME not in inputs or OUTPUT_NAME not in outputs:
            raise RequestRefused(
                f"the model {self.model} does not turn {INPUT_NAME} into {OUTPUT_NAME}: "
                f"name an ensemble, such as {DEFAULT_MODEL}"
            )
        # gRPC leaves a zero out: then the model takes no batches.
        return max(1, int(config.get("max_batch_size", 0)))

    def classify(
        self, images: Sequence[bytes], **options: str | int | float | bool
    ) -> list[Outcome]:
        """One outcome per image, in order; more than the server takes at once are split.

        ``options`` are request parameters: top_k, threshold, lang, group. Raises RequestRefused
        and ServerUnreachable; a request that the server fails becomes SERVER_ERROR outcomes.
        """
        return [
            outcome
            for part in split(images, self.max_batch_size)
            for outcome in self._request(part, options)
        ]

    def _request(self, images: Sequence[bytes], options: Mapping[str, Any]) -> list[Outcome]:
        started = time.perf_counter()

        def attempt() -> list[bytes]:
            nonlocal started
            started = time.perf_counter()
            return self._transport.infer(self.model, images, options)

        try:
            texts = self._retrying(attempt)
            results = [_parsed(text) for text in texts]
        except ServerFailed as error:
            results = [{"error": SERVER_ERROR, "message": str(error)}] * len(images)
        latency_ms = round((time.perf_counter() - started) * 1e3, 2)
        return [Outcome(result, latency_ms) for result in results]

    def close(self) -> None:
        """Give the connection back."""
        self._transport.close()

    def __enter__(self) -> Classifier:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def connect(
    url: str | None = None,
    *,
    model: str = DEFAULT_MODEL,
    protocol: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    retries: int = DEFAULT_RETRIES,
    on_retry: OnRetry = lambda _: None,
) -> Classifier:
    """Reach the server and read the model's limits.

    ``url`` defaults to this host, ``protocol`` to the url's scheme, else HTTP; ``timeout_s``
    bounds the wait for one answer; ``on_retry`` is told each retry in one line. Raises
    ServerUnreachable, RequestRefused.
    """
    address = parse(url, protocol)
    knock(address)
    transport = open_transport(address, timeout_s)
    try:
        return Classifier(transport, model, Retrying(retries, on_retry))
    except BaseException:
        transport.close()
        raise


def split(images: Sequence[bytes], limit: int) -> Iterator[list[bytes]]:
    """Requests of at most ``limit`` images and MAX_REQUEST_BYTES (or one image)."""
    part: list[bytes] = []
    size = 0
    for image in images:
        if part and (len(part) == limit or size + len(image) > MAX_REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(image)
        size += len(image)
    if part:
        yield part


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        raise ServerFailed(f"the server's answer is no JSON object: {one_line(text, 80)}")
    return result
