"""Memory per pipeline and per process, and how long a start takes."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from benchmarks import closed_loop, process_tree, services
from benchmarks.measuring import Bodies, Say
from benchmarks.repositories import PIPELINE, Variant
from benchmarks.timing import Figure
from embedded import EmbeddedServer

_LOAD_S = 1.0
_IMPORTS = {
    "this bundle's preprocess": "import common.preprocess.preprocessor",
    "numpy + OpenCV": "import numpy, cv2",
    "torch + torchvision": "import torch, torchvision",
}


def memory(say: Say) -> dict[str, Any]:
    """Proportional set size (pages shared by processes count once), after a load."""
    totals = []
    stubs: dict[str, list[float]] = {}
    for copies in (1, 2):
        say(f"memory: {copies} pipelines with the real network")
        with services.tritonserver(Variant(law=None), copies) as server, Bodies("in500") as bodies:
            for number in range(copies):
                name = PIPELINE if number == 0 else f"{PIPELINE}_copy{number}"
                url = f"{server.http_url}/v2/models/{name}_ensemble/generate"
                closed_loop.run(url, bodies.files, 4, _LOAD_S)
            totals.append(round(process_tree.pss_MB(server.pid)))
            if copies == 1:
                stubs = process_tree.stub_pss_MB(server.pid)
    return {
        "server_MB": totals,
        "per_extra_pipeline_MB": totals[1] - totals[0],
        "stub_MB": {
            name.removeprefix(f"{PIPELINE}_"): values[0]
            for name, values in sorted(stubs.items())
            if name.startswith(f"{PIPELINE}_")
        },
        "imports_MB": {name: _import_MB(code) for name, code in _IMPORTS.items()},
    }


def _import_MB(code: str) -> float:
    """What a Python process of its own takes that has imported no more than this."""
    script = f"{code}\nimport sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=services.PROJECT,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        taken = process_tree.pss_MB(process.pid)
        process.stdin.close()
    return round(taken, 1)


def start_up(rounds: int, say: Say) -> dict[str, Any]:
    """Seconds from starting the server until every ensemble has classified a picture."""
    say("start-up")
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        with services.quiet(), EmbeddedServer() as server:
            seconds.append(time.perf_counter() - started)
            pipelines = len(server.ensembles)
    return {"seconds": Figure.of(seconds).to_json(), "pipelines": pipelines}
