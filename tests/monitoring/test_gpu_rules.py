"""GPU alerts on the documented nv_gpu_* lines, served by a fixture exporter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_exporter import GPU_UUID, TRITON_GPU_METRICS, GpuExporter
from prometheus_process import PrometheusProcess

from embedded.server import EmbeddedServer


@pytest.fixture(scope="module")
def dcgm() -> Iterator[GpuExporter]:
    with GpuExporter() as exporter:
        yield exporter


@pytest.fixture(scope="module")
def gpu_prometheus(
    server: EmbeddedServer,
    dcgm: GpuExporter,
    prometheus_binary: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PrometheusProcess]:
    with GpuExporter(server.metrics_url) as exporter:
        targets = {"triton": exporter.address, "dcgm-exporter": dcgm.address}
        with PrometheusProcess(tmp_path_factory.mktemp("gpu"), targets) as running:
            yield running


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, (_, v) in TRITON_GPU_METRICS.items()])
def test_a_documented_gpu_line_reaches_prometheus(
    gpu_prometheus: PrometheusProcess, name: str, value: float
) -> None:
    assert gpu_prometheus.value(f'{name}{{gpu_uuid="{GPU_UUID}"}}') == value


def test_full_gpu_memory_is_pending(gpu_prometheus: PrometheusProcess) -> None:
    assert "TritonGpuMemoryAlmostFull" in gpu_prometheus.pending_or_firing()


def test_an_xid_error_fires(gpu_prometheus: PrometheusProcess, dcgm: GpuExporter) -> None:
    assert "GpuXidError" not in gpu_prometheus.firing()
    dcgm.dcgm_values["DCGM_FI_DEV_XID_ERRORS"] = 79.0
    gpu_prometheus.wait_until(lambda: "GpuXidError" in gpu_prometheus.firing(), "GpuXidError")


def test_gpu_metrics_are_not_missed_where_they_are_served(
    gpu_prometheus: PrometheusProcess,
) -> None:
    assert "TritonGpuMetricsMissing" not in gpu_prometheus.pending_or_firing()
