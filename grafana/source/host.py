"""Page 3: is there enough GPU, CPU and memory?"""

from __future__ import annotations

from grafana.source.dashboard import Dashboard, Row, Variable
from grafana.source.exporters import exporter_panels
from grafana.source.fields import Query, high_is_bad
from grafana.source.panel_types import Stat, TimeSeries
from grafana.source.panels import Panel
from grafana.source.promql import ENSEMBLE, JOB
from grafana.source.shared import ANNOTATIONS, INSTANCE_VARIABLE, JOB_VARIABLE, PIPELINE_VARIABLE

HOST = f'{JOB},instance=~"$instance"'
GPU = f'{HOST},gpu_uuid=~"$gpu"'
NO_GPU = "No GPU metrics"
LIMIT = {"limit": "red", "total": "red"}

_GPU_VARIABLE = Variable(
    name="gpu",
    label="GPU",
    query=f"label_values(nv_gpu_utilization{{{JOB}}}, gpu_uuid)",
    description="GPUs of the chosen servers; empty on a host without one.",
    multiple=True,
)


def _by_gpu(expr: str) -> str:
    """PromQL: the first characters of the long uuid become the label `gpu`."""
    return f'label_replace({expr}, "gpu", "$1", "gpu_uuid", "(GPU-.{{1,8}}).*")'


def _gpu() -> tuple[Panel, ...]:
    used = f"nv_gpu_memory_used_bytes{{{GPU}}}"
    total = f"nv_gpu_memory_total_bytes{{{GPU}}}"
    energy = f"sum(rate(nv_energy_consumption{{{GPU}}}[$__rate_interval]))"
    images = f"sum(rate(nv_inference_count{{{ENSEMBLE}}}[$__rate_interval]))"
    return (
        TimeSeries(
            title="GPU utilisation",
            description=(
                "Share of time in which the GPU computed. High is good while the queue is short; "
                "high with a growing queue means saturation."
            ),
            unit="percentunit",
            queries=(Query(_by_gpu(f"nv_gpu_utilization{{{GPU}}}"), "{{gpu}}"),),
            thresholds=high_is_bad(0.85, 0.95),
            maximum=1,
            minimum=0,
            no_value=NO_GPU,
        ),
        TimeSeries(
            title="GPU memory",
            description="Used memory per GPU, and what the GPU has. Weights, workspaces, contexts.",
            unit="bytes",
            queries=(
                Query(_by_gpu(used), "{{gpu}}"),
                Query(f"max({total})", "total"),
            ),
            colours=LIMIT,
            dashed=("total",),
            minimum=0,
            no_value=NO_GPU,
        ),
        TimeSeries(
            title="GPU power",
            description="Draw per GPU, and its limit: at the limit the clock goes down.",
            unit="watt",
            queries=(
                Query(_by_gpu(f"nv_gpu_power_usage{{{GPU}}}"), "{{gpu}}"),
                Query(f"max(nv_gpu_power_limit{{{GPU}}})", "limit"),
            ),
            colours=LIMIT,
            dashed=("limit",),
            minimum=0,
            no_value=NO_GPU,
        ),
        Stat(
            title="Fullest GPU memory",
            description="Used share of the GPU that is fullest.",
            unit="percentunit",
            queries=(Query(f"max({used} / {total})"),),
            thresholds=high_is_bad(0.85, 0.95),
            decimals=0,
            filled=True,
            no_value=NO_GPU,
        ),
        Stat(
            title="Energy per 1000 images",
            description="All chosen GPUs, idle draw included: it falls as the load rises.",
            unit="joule",
            queries=(Query(f"1000 * {energy} / ({images} > 0)"),),
            no_value=NO_GPU,
        ),
        Stat(
            title="GPUs",
            description="GPUs that report metrics. None with MIG, or without the GPU runtime.",
            unit="short",
            queries=(Query(f"count(nv_gpu_utilization{{{GPU}}})"),),
            no_value=NO_GPU,
        ),
    )


def _host() -> tuple[Panel, ...]:
    pool_used = f"nv_pinned_memory_pool_used_bytes{{{HOST}}}"
    pool_total = f"nv_pinned_memory_pool_total_bytes{{{HOST}}}"
    return (
        TimeSeries(
            title="CPU",
            description=(
                "Share of the whole host's cores in use, as Triton reads it. Decoding JPEGs is "
                "CPU work: at 1 preprocess is the limit, whatever the GPU does."
            ),
            unit="percentunit",
            queries=(Query(f"nv_cpu_utilization{{{HOST}}}", "{{instance}}"),),
            thresholds=high_is_bad(0.8, 0.95),
            maximum=1,
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Host memory",
            description="Used memory of the whole host, and what it has.",
            unit="bytes",
            queries=(
                Query(f"nv_cpu_memory_used_bytes{{{HOST}}}", "{{instance}}"),
                Query(f"max(nv_cpu_memory_total_bytes{{{HOST}}})", "total"),
            ),
            colours=LIMIT,
            dashed=("total",),
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Pinned memory pool",
            description="Used share of the pool through which tensors reach the GPU.",
            unit="percentunit",
            queries=(Query(f"{pool_used} / {pool_total}", "{{instance}}"),),
            thresholds=high_is_bad(0.75, 0.9),
            maximum=1,
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Scrape duration",
            width=12,
            description="Time Prometheus needs to read /metrics. Slow: the server has no CPU left.",
            unit="s",
            queries=(Query(f"scrape_duration_seconds{{{HOST}}}", "{{instance}}"),),
            thresholds=high_is_bad(1, 5),
            minimum=0,
            always_has_data=True,
        ),
        TimeSeries(
            title="Samples per scrape",
            width=12,
            description="Series that each server exposes. Steady; growth means label values leak.",
            unit="short",
            queries=(Query(f"scrape_samples_scraped{{{HOST}}}", "{{instance}}"),),
            thresholds=high_is_bad(2000, 5000),
            minimum=0,
            always_has_data=True,
        ),
    )


HOST_PAGE = Dashboard(
    uid="triton-host",
    title="Triton / GPU and host",
    description="GPU, CPU and memory of the servers.",
    variables=(JOB_VARIABLE, INSTANCE_VARIABLE, PIPELINE_VARIABLE, _GPU_VARIABLE),
    annotations=ANNOTATIONS,
    rows=(
        Row(_gpu()[:3], title="GPU"),
        Row(_gpu()[3:], height=5),
        Row(_host()[:3], height=7, title="Host"),
        Row(_host()[3:], height=6),
        Row(exporter_panels(), height=6, title="Optional exporters"),
    ),
)
