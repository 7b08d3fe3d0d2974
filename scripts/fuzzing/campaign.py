"""Send damaged elements to a running server and judge every answer."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import psutil
import requests
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from common.errors import ERROR_CODES
from embedded import EmbeddedServer
from fuzzing.mutations import base_files, elements, parameters

_BATCH = 32
_WARM_UP = 1000
# One request in so many carries parameters through the whole ensemble.
_PARAMETERS_SHARE = 100


@dataclass
class Report:
    """What a campaign saw; ``faults`` holds (what is wrong, the element)."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, bytes]] = field(default_factory=list)
    rss_growth_bytes: int = 0
    server_alive: bool = True

    @property
    def passed(self) -> bool:
        """No fault, and the server still answers."""
        return not self.faults and self.server_alive


def run(
    server: EmbeddedServer,
    pipeline: str,
    count: int,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Report:
    """``count`` damaged elements to ``<pipeline>_preprocess``, then parameters to the ensemble."""
    report = Report()
    with grpcclient.InferenceServerClient(server.grpc_address) as client:
        for batch in _batches(elements(seed + 1, _WARM_UP)):
            _judge(client, pipeline, batch, Report())
        before = _memory_bytes(server)
        for batch in _batches(elements(seed, count)):
            _judge(client, pipeline, batch, report)
            progress(len(batch))
        report.rss_growth_bytes = _memory_bytes(server) - before
    for options in parameters(seed, max(1, count // _PARAMETERS_SHARE)):
        _judge_parameters(server, pipeline, options, report)
    report.server_alive = _answers(server, pipeline)
    return report


def _batches(items: Iterable[bytes]) -> Iterable[list[bytes]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, _BATCH)):
        yield batch


def _judge(
    client: grpcclient.InferenceServerClient, pipeline: str, batch: list[bytes], report: Report
) -> None:
    tensor = grpcclient.InferInput("RAW_IMAGE", [len(batch), 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[element] for element in batch], dtype=object))
    try:
        answer = client.infer(f"{pipeline}_preprocess", [tensor])
    except InferenceServerException as error:
        report.faults += [(f"the whole request failed: {error}", element) for element in batch]
        return
    statuses = answer.as_numpy("IMAGE_STATUS")
    if statuses.shape != (len(batch), 1):
        report.faults.append((f"{statuses.shape} results for {len(batch)} images", b""))
        return
    for element, (status,) in zip(batch, statuses, strict=True):
        code = status.decode().partition(":")[0] or "ok"
        report.outcomes[code] += 1
        if code == "INTERNAL" or code not in ("ok", *ERROR_CODES):
            report.faults.append((f"answered {status.decode()}", element))


def _judge_parameters(
    server: EmbeddedServer, pipeline: str, options: dict[str, object], report: Report
) -> None:
    body = {
        "inputs": [{"name": "RAW_IMAGE", "shape": [1, 1], "datatype": "BYTES", "data": ["?"]}],
        "parameters": options,
    }
    url = f"{server.http_url}/v2/models/{pipeline}_ensemble/infer"
    response = requests.post(url, json=body, timeout=30)
    report.outcomes[f"parameters: HTTP {response.status_code}"] += 1
    if response.status_code not in (200, 400) or "Traceback" in response.text:
        report.faults.append(
            (f"HTTP {response.status_code} for parameters", repr(options).encode())
        )


def _answers(server: EmbeddedServer, pipeline: str) -> bool:
    """Whether a sound picture still gets through, and no process of the server has died."""
    with grpcclient.InferenceServerClient(server.grpc_address) as client:
        report = Report()
        _judge(client, pipeline, base_files()[:1], report)
    return report.outcomes == Counter(ok=1) and server.exit_code() is None


def _memory_bytes(server: EmbeddedServer) -> int:
    """Resident memory of the server and its Python processes, shared pages counted in each."""
    root = psutil.Process(server.pid)
    return sum(process.memory_info().rss for process in (root, *root.children(recursive=True)))
