"""The real tritonserver on the CPU and a real Prometheus that scrapes it, once per session."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from bright_pipeline import GOOD, NOT_BASE64, TRUNCATED, WHITE, classify, make_repository
from exposition import Scrape
from prometheus_process import PrometheusProcess

from embedded.server import EmbeddedServer

NEEDS_PROMETHEUS = "Prometheus is not installed: apt-get install prometheus"


@pytest.fixture(scope="session")
def prometheus_binary() -> str:
    path = shutil.which("prometheus")
    if path is None:
        pytest.skip(NEEDS_PROMETHEUS)
    return path


@pytest.fixture(scope="session")
def promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        pytest.skip(NEEDS_PROMETHEUS)
    return path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The four models around a small network; see bright_pipeline."""
    repository = make_repository(tmp_path_factory.mktemp("repository"))
    with EmbeddedServer(repository) as running:
        yield running


@pytest.fixture(scope="session")
def prometheus(
    server: EmbeddedServer, prometheus_binary: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusProcess]:
    targets = {"triton": server.metrics_url.split("/")[2], "prometheus": "self"}
    with PrometheusProcess(tmp_path_factory.mktemp("prometheus"), targets) as running:
        yield running


@pytest.fixture(scope="session")
def traffic(server: EmbeddedServer, prometheus: PrometheusProcess) -> tuple[Scrape, Scrape]:
    """The metrics pages before and after traffic of every kind but a crash.

    20 good requests, 5 good ones of four images; 6 with an image that is no base64, 3 of three
    images with one cut off; 4 with a white image; 5 refused for their top_k; 2 that name a tensor
    that does not exist.
    """
    before = Scrape.settled(server.metrics_url)
    url = server.http_url
    plan = [
        *[([GOOD], {}, 200)] * 20,
        *[([GOOD] * 4, {}, 200)] * 5,
        *[([NOT_BASE64], {}, 200)] * 6,
        *[([GOOD, TRUNCATED, GOOD], {}, 200)] * 3,
        *[([WHITE], {}, 200)] * 4,
        *[([GOOD], {"top_k": 0}, 400)] * 5,
    ]
    for images, parameters, status in plan:
        assert classify(url, images, **parameters).status_code == status
    malformed = {"inputs": [{"name": "X", "datatype": "BYTES", "shape": [1, 1], "data": ["x"]}]}
    for _ in range(2):
        answer = requests.post(f"{url}/v2/models/resnet50_ensemble/infer", json=malformed)
        assert answer.status_code == 400
    prometheus.settle()
    time.sleep(1.5)  # a second scrape of the final values
    return before, Scrape.settled(server.metrics_url)


@pytest.fixture(scope="session")
def project() -> Path:
    return Path(__file__).resolve().parents[2]
