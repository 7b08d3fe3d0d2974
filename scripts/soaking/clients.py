"""Clients that send the corpus in every way, check each answer and count what they saw."""

from __future__ import annotations

import base64
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
from tritonclient import grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from releasing.server import texts
from soaking.corpus import Corpus, Element

TIMEOUT_S = 60.0
# The documented reasons of a 503 (docs/releases.md).
SHED = ("overloaded: ", "Exceeds maximum queue size", "Request timeout expired")
# Some requests are malformed: HTTP 400.
REFUSED_SHARE = 0.03
MAX_IMAGES = 8
_POLITE_PAUSE_S = 0.05
_SHOWN = 20

Predictions = list[tuple[int, float]]


@dataclass
class Tally:
    """What the clients saw; ``faults`` holds the first answers that must not be."""

    statuses: Counter[int] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)
    latencies_s: list[float] = field(default_factory=list)
    fault_count: int = 0
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, text: str) -> None:
        """One answer that must not be."""
        with self._lock:
            self.fault_count += 1
            if len(self.faults) < _SHOWN:
                self.faults.append(text)

    def answered(self, status: int, outcomes: Sequence[str], latency_s: float) -> None:
        """One request with its status and, for a good one, an outcome per image."""
        with self._lock:
            self.statuses[status] += 1
            if status == 200:
                self.images.update(outcomes)
                worst = "client_error" if "client_error" in outcomes else "ok"
                self.requests[worst] += 1
                self.latencies_s.append(latency_s)
            elif status == 400:
                self.requests["refused"] += 1


class Client:
    """One connection over HTTP and, once it is used, one over gRPC; used by one thread."""

    def __init__(self, http_url: str, grpc_address: str, ensemble: str) -> None:
        self._url = f"{http_url}/v2/models/{ensemble}"
        self._ensemble = ensemble
        self._http = requests.Session()
        self._http.trust_env = False
        self._grpc_address = grpc_address
        self._grpc: Any = None

    def infer(
        self, way: str, elements: Sequence[Element], parameters: Mapping[str, Any]
    ) -> tuple[int, list[dict[str, Any]], str]:
        """HTTP status (gRPC's translated), results and error text of one request."""
        send = {"json": self._json, "generate": self._generate, "grpc": self._by_grpc}
        return send[way]([element.data for element in elements], parameters)

    def close(self) -> None:
        """Give both connections back."""
        self._http.close()
        if self._grpc is not None:
            self._grpc.close()

    def _json(self, images: list[bytes], parameters: Mapping[str, Any]) -> Any:
        data = [_text(image) for image in images]
        head = {"name": "RAW_IMAGE", "datatype": "BYTES", "shape": [len(data), 1]}
        content = {"inputs": [{**head, "data": data}], "parameters": parameters}
        answer = self._http.post(f"{self._url}/infer", json=content, timeout=TIMEOUT_S)
        if answer.status_code != 200:
            return answer.status_code, [], answer.text
        return 200, [json.loads(text) for text in answer.json()["outputs"][0]["data"]], ""

    def _generate(self, images: list[bytes], parameters: Mapping[str, Any]) -> Any:
        content = {"RAW_IMAGE": [_text(image) for image in images], **parameters}
        answer = self._http.post(f"{self._url}/generate", json=content, timeout=TIMEOUT_S)
        if answer.status_code != 200:
            # Triton's generate front end has one status for every error of a model: 400.
            shed = any(reason in answer.text for reason in SHED)
            return 503 if shed else answer.status_code, [], answer.text
        found = answer.json()["OUTPUT_RESULTS"]
        return (
            200,
            [json.loads(text) for text in ([found] if isinstance(found, str) else found)],
            "",
        )

    def _by_grpc(self, images: list[bytes], parameters: Mapping[str, Any]) -> Any:
        if self._grpc is None:
            unlimited = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
            channel = [("grpc.enable_http_proxy", 0), *unlimited]
            self._grpc = triton_grpc.InferenceServerClient(self._grpc_address, channel_args=channel)
        tensor = triton_grpc.InferInput("RAW_IMAGE", [len(images), 1], "BYTES")
        tensor.set_data_from_numpy(texts(images))
        try:
            answer = self._grpc.infer(
                self._ensemble, [tensor], parameters=dict(parameters), client_timeout=TIMEOUT_S
            )
        except InferenceServerException as error:
            status = {"UNAVAILABLE": 503, "INVALID_ARGUMENT": 400}
            name = str(error.status()).removeprefix("StatusCode.")
            return status.get(name, 500), [], f"{name}: {error.message()}"
        return 200, [json.loads(text) for text in answer.as_numpy("OUTPUT_RESULTS").ravel()], ""


@dataclass(frozen=True)
class Plan:
    """What a client needs: the corpus, what its pictures get alone, how and how many to send."""

    corpus: Corpus
    expected: Mapping[bytes, Predictions]
    ways: tuple[str, ...] = ("json", "json", "generate", "grpc")
    images: tuple[int, ...] = (1,) * 30 + (2,) * 10 + (4,) * 9 + (MAX_IMAGES,)


def reference(client: Client, corpus: Corpus) -> dict[bytes, Predictions]:
    """Each picture's predictions when nothing else is going on."""
    found = {}
    for element in corpus.good:
        status, results, text = client.infer("grpc", [element], {"top_k": 5})
        if status != 200 or "predictions" not in results[0]:
            raise RuntimeError(
                f"a picture of the corpus is not answered: {status} {results} {text}"
            )
        found[element.data] = _pairs(results[0])
    return found


def run(client: Client, plan: Plan, tally: Tally, seed: int, stop: threading.Event) -> None:
    """Send until told to stop; after a 503 pause shortly, as a polite client does."""
    source = random.Random(seed)
    while not stop.is_set():
        elements = [plan.corpus.draw(source) for _ in range(source.choice(plan.images))]
        parameters: dict[str, Any] = {"top_k": source.choice((1, 3, 5))}
        if source.random() < REFUSED_SHARE:
            parameters["top_k"] = 0
        if source.random() < 0.2:
            parameters["lang"] = "zh"
        way = source.choice(plan.ways)
        started = time.monotonic()
        try:
            status, results, text = client.infer(way, elements, parameters)
        except Exception as error:
            tally.fault(f"{way}: no answer: {type(error).__name__}: {error}"[:200])
            continue
        took_s = time.monotonic() - started
        tally.answered(status, [_outcome(result) for result in results], took_s)
        wrong = _wrong(plan, elements, parameters, status, results, text)
        if wrong:
            tally.fault(f"{way}: {wrong}"[:300])
        if status == 503:
            stop.wait(_POLITE_PAUSE_S)


def _wrong(
    plan: Plan,
    elements: Sequence[Element],
    parameters: Mapping[str, Any],
    *answer: Any,
) -> str | None:
    """What is wrong with an answer, or None."""
    status, results, text = answer
    if status == 503:
        return None if any(reason in text for reason in SHED) else f"503 for no reason: {text}"
    if status == 400:
        return None if parameters["top_k"] == 0 else f"400 for a good request: {text}"
    if status != 200:
        return f"HTTP {status}: {text}"
    if parameters["top_k"] == 0:
        return "200 for a malformed request"
    if len(results) != len(elements):
        return f"{len(results)} results for {len(elements)} images"
    for element, result in zip(elements, results):
        if result.get("error") != element.code:
            return f"{result} instead of {element.code or 'predictions'}"
        if element.code is None:
            expected = plan.expected[element.data][: parameters["top_k"]]
            if _pairs(result) != expected:
                return f"{_pairs(result)} instead of {expected}, which the picture got alone"
    return None


def _pairs(result: Mapping[str, Any]) -> Predictions:
    return [(row["class_id"], row["confidence"]) for row in result["predictions"]]


def _outcome(result: Mapping[str, Any]) -> str:
    return "client_error" if "error" in result else "ok"


def _text(data: bytes) -> str:
    """base64, but for what is meant to be no base64."""
    is_text = data.isascii() and b"\0" not in data
    return data.decode("ascii") if is_text else base64.b64encode(data).decode("ascii")
