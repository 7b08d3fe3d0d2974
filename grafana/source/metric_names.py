"""Metric names that panels may use, with their kind; a name outside is a typo or a dead series.

Ours come from common.metric_families, recorded ones from prometheus/rules, the rest stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from common.metric_families import FAMILIES

RULES = Path(__file__).resolve().parents[2] / "prometheus" / "rules"

# Triton's own, on every host. Its counters have no _total, its durations are microseconds.
TRITON: Mapping[str, str] = {
    "nv_cpu_memory_total_bytes": "gauge",
    "nv_cpu_memory_used_bytes": "gauge",
    "nv_cpu_utilization": "gauge",
    "nv_inference_compute_infer_duration_us": "counter",
    "nv_inference_compute_input_duration_us": "counter",
    "nv_inference_compute_output_duration_us": "counter",
    "nv_inference_count": "counter",
    "nv_inference_exec_count": "counter",
    "nv_inference_pending_request_count": "gauge",
    "nv_inference_queue_duration_us": "counter",
    "nv_inference_request_duration_us": "counter",
    "nv_inference_request_failure": "counter",
    "nv_inference_request_success": "counter",
    "nv_pinned_memory_pool_total_bytes": "gauge",
    "nv_pinned_memory_pool_used_bytes": "gauge",
}
# Only where Triton sees a GPU through DCGM.
TRITON_GPU: Mapping[str, str] = {
    "nv_energy_consumption": "counter",
    "nv_gpu_memory_total_bytes": "gauge",
    "nv_gpu_memory_used_bytes": "gauge",
    "nv_gpu_power_limit": "gauge",
    "nv_gpu_power_usage": "gauge",
    "nv_gpu_utilization": "gauge",
}
PROMETHEUS: Mapping[str, str] = {
    "ALERTS": "gauge",
    "scrape_duration_seconds": "gauge",
    "scrape_samples_scraped": "gauge",
    "up": "gauge",
}
# Of exporters that the operator may add.
OPTIONAL_EXPORTERS: Mapping[str, str] = {
    "DCGM_FI_DEV_GPU_TEMP": "gauge",
    "DCGM_FI_DEV_XID_ERRORS": "gauge",
    "node_cpu_seconds_total": "counter",
    "node_filesystem_avail_bytes": "gauge",
    "node_filesystem_size_bytes": "gauge",
    "node_load1": "gauge",
}
# The one recorded series that still counts up; all others are rates, ratios or constants.
RECORDED_COUNTERS = frozenset({"pipeline:failed_requests:total"})


def own_names() -> dict[str, str]:
    """Our series: a histogram is three counters."""
    names: dict[str, str] = {}
    for name, family in FAMILIES.items():
        if family.kind == "histogram":
            names |= {f"{name}_{part}": "counter" for part in ("bucket", "count", "sum")}
        else:
            names[name] = family.kind
    return names


def recorded_names() -> dict[str, str]:
    """Series that Prometheus records by its rules."""
    groups = [
        group
        for path in sorted(RULES.glob("*.y*ml"))
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    ]
    names = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    return {name: "counter" if name in RECORDED_COUNTERS else "gauge" for name in names}


def known_names() -> dict[str, str]:
    """Every name that a query may use."""
    fixed = {**TRITON, **TRITON_GPU, **PROMETHEUS, **OPTIONAL_EXPORTERS}
    return {**fixed, **own_names(), **recorded_names()}
