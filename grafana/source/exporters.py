"""Panels of the optional exporters: dcgm-exporter for the GPU, node-exporter for the host."""

from __future__ import annotations

from grafana.source.fields import Query, Thresholds, high_is_bad
from grafana.source.panel_types import TimeSeries
from grafana.source.panels import Panel

NOT_INSTALLED = "Exporter not running"


def exporter_panels() -> tuple[Panel, ...]:
    filesystem = 'fstype!~"tmpfs|overlay|squashfs|ramfs"'
    free = f"node_filesystem_avail_bytes{{{filesystem}}}"
    size = f"node_filesystem_size_bytes{{{filesystem}}}"
    return (
        TimeSeries(
            title="GPU temperature",
            description="From dcgm-exporter. Near the limit the clock goes down.",
            unit="celsius",
            queries=(Query("DCGM_FI_DEV_GPU_TEMP", "GPU {{gpu}}"),),
            thresholds=high_is_bad(80, 88),
            minimum=0,
            width=6,
            no_value=NOT_INSTALLED,
        ),
        TimeSeries(
            title="GPU XID errors",
            description="From dcgm-exporter: changes of the last XID. Any one asks for a look.",
            unit="short",
            queries=(Query("changes(DCGM_FI_DEV_XID_ERRORS[10m])", "GPU {{gpu}}"),),
            thresholds=Thresholds("green", ((1, "red"),)),
            decimals=0,
            minimum=0,
            width=6,
            no_value=NOT_INSTALLED,
        ),
        TimeSeries(
            title="Disk used",
            description="From node-exporter. Engines, Prometheus data and images share the disk.",
            unit="percentunit",
            queries=(Query(f"1 - {free} / {size}", "{{mountpoint}}"),),
            thresholds=high_is_bad(0.8, 0.9),
            maximum=1,
            minimum=0,
            width=6,
            no_value=NOT_INSTALLED,
        ),
        TimeSeries(
            title="Load per core",
            description="From node-exporter: runnable threads over cores. Over 1 they queue.",
            unit="short",
            queries=(
                Query(
                    "node_load1 / on (instance) "
                    'count by (instance) (node_cpu_seconds_total{mode="idle"})',
                    "{{instance}}",
                ),
            ),
            thresholds=high_is_bad(1, 2),
            decimals=2,
            minimum=0,
            width=6,
            no_value=NOT_INSTALLED,
        ),
    )
