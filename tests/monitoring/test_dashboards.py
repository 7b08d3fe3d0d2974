"""Every query of the dashboards against a real Prometheus that scrapes the real server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from bright_pipeline import GOOD, NOT_BASE64, PIPELINE, TRUNCATED, WHITE, classify
from exposition import Scrape
from gpu_exporter import TRITON_GPU_METRICS, GpuExporter
from prometheus_process import PrometheusProcess

from embedded.server import EmbeddedServer
from grafana.source import DASHBOARDS, lint, lint_promql
from grafana.source.metric_names import (
    OPTIONAL_EXPORTERS,
    PROMETHEUS,
    TRITON_GPU,
    recorded_names,
)
from grafana.source.panel_types import Stat
from grafana.source.panels import Panel

# As Grafana fills them in: everything chosen, scrapes every second.
VALUES = {
    "job": ".*",
    "instance": ".*",
    "gpu": ".*",
    "pipeline": PIPELINE,
    "stage": "preprocess",
    "__rate_interval": "20s",
    "__range": "60s",
}
MIXED_TRAFFIC = ([GOOD], [GOOD, TRUNCATED], [NOT_BASE64], [WHITE], [GOOD] * 4)
PAGES = [page.to_json(DASHBOARDS) for page in DASHBOARDS]
PANELS = [(page.uid, panel) for page in DASHBOARDS for panel in page.panels]


def fill(expr: str) -> str:
    """The expression with every variable replaced."""
    return re.sub(r"\$\{?([A-Za-z_]\w*)\}?", lambda match: VALUES[match[1]], expr)


def is_gpu(panel: Panel) -> bool:
    """True where the panel reads what only a GPU host serves."""
    names = {use.name for query in panel.queries for use in lint_promql.uses_of(query.expr)}
    return any(name in TRITON_GPU or name.startswith("DCGM_") for name in names)


@pytest.fixture(scope="module")
def busy(server: EmbeddedServer, prometheus: PrometheusProcess) -> PrometheusProcess:
    """Prometheus after good requests, bad images and one fault of ours, over several scrapes."""
    for _ in range(5):
        for images in MIXED_TRAFFIC:
            assert classify(server.http_url, images).status_code == 200
        assert classify(server.http_url, [GOOD], top_k=-1).status_code == 400
        time.sleep(1)
    prometheus.settle()
    return prometheus


@pytest.fixture(scope="module")
def gpu_host(
    server: EmbeddedServer, prometheus_binary: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusProcess]:
    """Prometheus over the real server's page with the GPU lines that this host cannot have."""
    folder = tmp_path_factory.mktemp("gpu-prometheus")
    with GpuExporter(server.metrics_url) as triton, GpuExporter() as dcgm:
        targets = {"triton": triton.address, "dcgm-exporter": dcgm.address}
        with PrometheusProcess(folder, targets) as running:
            running.settle()
            for _ in range(3):
                classify(server.http_url, [GOOD])
                running.settle()
            yield running


@pytest.mark.parametrize(
    ("uid", "panel"), PANELS, ids=[f"{uid}-{panel.title}" for uid, panel in PANELS]
)
def test_a_panel_runs_and_shows_what_it_must(
    uid: str, panel: Panel, busy: PrometheusProcess
) -> None:
    for query in panel.queries:
        series = busy.query(fill(query.expr))
        if panel.always_has_data:
            assert series, f"{uid}, {panel.title}: no data from {fill(query.expr)}"
        for each in series:
            assert each["value"][1] not in ("+Inf", "-Inf"), f"{panel.title}: divides by zero"


@pytest.mark.parametrize("page", PAGES, ids=[page["uid"] for page in PAGES])
def test_queries_over_time_run(page: dict[str, Any], busy: PrometheusProcess) -> None:
    end = time.time()
    for panel in lint.panels_of(page):
        for target in panel["targets"]:
            if target["range"]:
                window = {"start": str(end - 30), "end": str(end), "step": "5"}
                answer = requests.get(
                    f"{busy.url}/api/v1/query_range",
                    params={"query": fill(target["expr"]), **window},
                    timeout=20,
                ).json()
                assert answer["status"] == "success", f"{panel['title']}: {answer.get('error')}"


@pytest.mark.parametrize("page", PAGES, ids=[page["uid"] for page in PAGES])
def test_annotations_run(page: dict[str, Any], busy: PrometheusProcess) -> None:
    for annotation in page["annotations"]["list"]:
        busy.query(fill(annotation["target"]["expr"]))


@pytest.mark.parametrize("page", PAGES, ids=[page["uid"] for page in PAGES])
def test_variables_offer_values(page: dict[str, Any], busy: PrometheusProcess) -> None:
    for variable in page["templating"]["list"]:
        if variable["type"] == "query" and variable["name"] != "gpu":
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert match is not None
            url = f"{busy.url}/api/v1/label/{match[2]}/values"
            answer = requests.get(url, params={"match[]": fill(match[1])}, timeout=20).json()
            assert answer["data"], variable["name"]


def test_every_metric_that_is_not_a_gpu_host_s_is_in_a_real_scrape(
    server: EmbeddedServer, busy: PrometheusProcess
) -> None:
    used = {
        use.name
        for page in PAGES
        for _, expr in lint.expressions_of(page)
        for use in lint_promql.uses_of(expr)
    }
    elsewhere = TRITON_GPU.keys() | OPTIONAL_EXPORTERS.keys() | PROMETHEUS.keys()
    recorded = used & recorded_names().keys()
    assert used - elsewhere - recorded <= Scrape.of(server.metrics_url).names
    assert {name for name in recorded if not busy.query(name)} == set()


GPU_PANELS = [panel for _, panel in PANELS if is_gpu(panel)]


@pytest.mark.parametrize("panel", GPU_PANELS, ids=[panel.title for panel in GPU_PANELS])
def test_a_gpu_panel_shows_numbers_on_a_gpu_host(panel: Panel, gpu_host: PrometheusProcess) -> None:
    for query in panel.queries:
        assert gpu_host.query(fill(query.expr)), query.expr


def test_gpu_numbers_are_right(gpu_host: PrometheusProcess) -> None:
    value = {name: number for name, (_, number) in TRITON_GPU_METRICS.items()}
    shown = {panel.title: gpu_host.value(fill(panel.queries[0].expr)) for panel in GPU_PANELS}
    assert shown["GPU utilisation"] == value["nv_gpu_utilization"]
    used = value["nv_gpu_memory_used_bytes"] / value["nv_gpu_memory_total_bytes"]
    assert shown["Fullest GPU memory"] == pytest.approx(used)
    assert shown["GPU power"] == value["nv_gpu_power_usage"]
    assert shown["GPUs"] == 1


def test_without_a_server_the_verdict_is_down_and_no_number_is_made_up(
    prometheus_binary: str, tmp_path: Path
) -> None:
    stats = {panel.title: panel for _, panel in PANELS if isinstance(panel, Stat)}
    states = {state.text: state.value for state in stats["Service"].states}
    with PrometheusProcess(tmp_path, {"triton": "127.0.0.1:9"}) as lonely:
        lonely.wait_until(lambda: bool(lonely.query("up")), "a first scrape")
        assert lonely.value(fill(stats["Service"].queries[0].expr)) == states["DOWN"]
        for panel in stats.values():
            shown = lonely.query(fill(panel.queries[0].expr))
            assert all(series["value"][1] != "NaN" for series in shown), panel.title


def test_the_committed_pages_are_the_ones_tested_here(project: Path) -> None:
    for page in PAGES:
        text = (project / "grafana" / "dashboards" / f"{page['uid']}.json").read_text("utf-8")
        assert json.loads(text) == page
