"""The GPU lines of Triton's documentation, appended to the page of a real server without a GPU.

Names, types and labels: Triton's docs/user_guide/metrics.md. DCGM's: dcgm-exporter's
etc/default-counters.csv.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

import requests

GPU_UUID = "GPU-6f7a1c52-9d1e-4c0a-8b36-2f54d0c1a7e3"
TRITON_GPU_METRICS = {
    "nv_gpu_utilization": ("gauge", 0.97),
    "nv_gpu_memory_total_bytes": ("gauge", 150_754_820_096.0),
    "nv_gpu_memory_used_bytes": ("gauge", 145_000_000_000.0),
    "nv_gpu_power_usage": ("gauge", 512.5),
    "nv_gpu_power_limit": ("gauge", 700.0),
    "nv_energy_consumption": ("counter", 123_456.0),
}
DCGM_METRICS = {
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", 61.0),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", 0.0),
}


class GpuExporter:
    """Serves ``metrics_url``'s page plus the GPU lines; without a URL, DCGM's lines alone."""

    def __init__(self, metrics_url: str | None = None) -> None:
        self.metrics_url = metrics_url
        self.dcgm_values = {name: value for name, (_, value) in DCGM_METRICS.items()}
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exporter.page().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._http.server_port}"

    def page(self) -> str:
        if self.metrics_url is None:
            labels = f'gpu="0",UUID="{GPU_UUID}",modelName="NVIDIA H200"'
            return "".join(
                _lines(name, kind, labels, self.dcgm_values[name])
                for name, (kind, _) in DCGM_METRICS.items()
            )
        labels = f'gpu_uuid="{GPU_UUID}"'
        real = requests.get(self.metrics_url, timeout=5).text
        return real + "".join(
            _lines(name, kind, labels, value) for name, (kind, value) in TRITON_GPU_METRICS.items()
        )

    def __enter__(self) -> GpuExporter:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()


def _lines(name: str, kind: str, labels: str, value: float) -> str:
    return f"# HELP {name} GPU.\n# TYPE {name} {kind}\n{name}{{{labels}}} {value}\n"
