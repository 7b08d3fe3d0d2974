"""The ensemble beside a gateway and a monolith: null inference, real inference, fixed rates.

Null inference answers at once, so that only what surrounds the network counts. Every contender gets
the same photographs as base64 in JSON and answers with five classes in JSON. CPU is user plus
system time of all server processes; a gateway's includes the Triton that it asks.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import measuring, open_loop, pictures, pipelines, process_tree, services
from benchmarks.measuring import Bodies, Samples, Say
from benchmarks.repositories import PIPELINE, TUTORIAL_MODEL, Variant, bare_network
from benchmarks.services import Service
from benchmarks.timing import Figure
from embedded import EmbeddedServer

ENSEMBLE = "ensemble"
GATEWAY, GATEWAY_2, GATEWAY_FAST = "gateway", "gateway, 2 workers", "gateway, our preprocess"
MONOLITH, MONOLITH_FAST = "monolith", "monolith, our preprocess"
_SEVERAL = 8
_MANY_CLIENTS = 16
# A rate at which one request in twenty waits longer than this is too much for the contender.
_OVERLOADED_P95_MS = 500.0


class NullInference:
    """Closed loop at several numbers of clients, in visits spread over a run.

    Each visit starts every server anew: what a start draws by lot (addresses, heaps) and what the
    host's neighbours do for minutes are part of the spread, which one visit would not show.
    """

    def __init__(self, rounds: int, seconds: float, clients: Sequence[int], say: Say) -> None:
        """``rounds`` are those of one visit."""
        self._rounds, self._seconds, self._clients, self._say = rounds, seconds, clients, say
        self._visits = 0
        self._samples: Samples = {}
        self._several: Samples = {}
        self._cpu_ms: dict[str, list[float]] = {}

    def visit(self) -> dict[str, Any]:
        """Measure once more; the results of all visits so far."""
        self._visits += 1
        with contextlib.ExitStack() as running:
            server = running.enter_context(services.tritonserver(Variant()))
            everyone = running.enter_context(_contenders(server, onnx={}))
            everyone[GATEWAY_2] = running.enter_context(_gateway(server, "opencv", workers=2))
            self._say(f"null inference, visit {self._visits}: {len(everyone)} contenders")
            self._load(everyone)
            memory = {name: round(process_tree.pss_MB(*s.pids)) for name, s in everyone.items()}
        return {
            "size": "in500",
            "visits": self._visits,
            "rounds": self._rounds * self._visits,
            "seconds": self._seconds,
            "rows": measuring.rows(self._samples),
            "ensemble_over": measuring.compared(self._samples, ENSEMBLE),
            "several": {"images_per_request": _SEVERAL, **measuring.rows(self._several)[0]},
            "pss_MB": memory,
            "cpu_ms_by_model": {
                name.removeprefix(f"{PIPELINE}_"): Figure.of(values).to_json()
                for name, values in sorted(self._cpu_ms.items())
                if name != TUTORIAL_MODEL
            },
        }

    def _load(self, everyone: Mapping[str, Service]) -> None:
        ensemble = {ENSEMBLE: everyone[ENSEMBLE]}
        rounds, seconds = self._rounds, self._seconds
        with Bodies("in500") as one:
            taken = measuring.in_turn(everyone, one, self._clients, rounds, seconds)
            measuring.extend(self._samples, taken)
            for _ in range(rounds):
                split = measuring.cpu_ms_by_model(ensemble[ENSEMBLE], one, _MANY_CLIENTS, seconds)
                for name, cpu_ms in split.items():
                    self._cpu_ms.setdefault(name, []).append(cpu_ms)
        with Bodies("in500", images_per_request=_SEVERAL) as several:
            measuring.extend(
                self._several, measuring.in_turn(ensemble, several, [4], rounds, seconds)
            )


def real_inference(rounds: int, seconds: float, clients: int, say: Say) -> dict[str, Any]:
    """The same with the exported network on this CPU, which then decides nearly everything."""
    with contextlib.ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-onnx-")))
        onnx = {
            "opencv": str(bare_network(folder / "fp32.onnx")),
            "ours": str(pipelines.onnx_file(PIPELINE)),
        }
        server = running.enter_context(services.tritonserver(Variant(law=None)))
        everyone = running.enter_context(_contenders(server, onnx))
        with Bodies("in500") as one:
            say(f"real inference: {len(everyone)} contenders, {rounds} rounds")
            samples = measuring.in_turn(everyone, one, [clients], rounds, seconds)
    return {
        "size": "in500",
        "rounds": rounds,
        "seconds": seconds,
        "rows": measuring.rows(samples),
        "ensemble_over": measuring.compared(samples, ENSEMBLE),
    }


def fixed_rates(rates: Sequence[float], seconds: float, say: Say) -> dict[str, Any]:
    """Open loop, null inference: each contender until a rate is too much for it."""
    found = []
    with services.tritonserver(Variant()) as server, _contenders(server, onnx={}) as everyone:
        bodies = services.bodies("in500")
        for name, service in everyone.items():
            say(f"fixed rates: {name}")
            services.check_answer(service, bodies[0])
            open_loop.run(service.url, bodies, min(rates), 1.0)
            for rate in rates:
                load = open_loop.run(service.url, bodies, rate, seconds)
                found.append({"contender": name, **asdict(load)})
                if load.failed or load.p95_ms > _OVERLOADED_P95_MS:
                    break
    return {"size": "in500", "seconds": seconds, "rows": found}


def sizes(seconds: float, say: Say) -> list[dict[str, Any]]:
    """What an image of each size costs the whole server; null inference, 4 clients."""
    found = []
    with services.tritonserver(Variant()) as server:
        service = services.ensemble(server)
        for size in pictures.SIZES_PX:
            say(f"the ensemble's cost of an image: {size}")
            with Bodies(size) as bodies:
                samples = measuring.in_turn({ENSEMBLE: service}, bodies, [1, 4], 2, seconds)
                mean_bytes = sum(map(len, bodies.contents)) // len(bodies.contents)
            for row in measuring.rows(samples):
                found.append({"size": size, "body_kB": round(mean_bytes / 1e3), **row})
    return found


@contextlib.contextmanager
def _contenders(server: EmbeddedServer, onnx: Mapping[str, str]) -> Iterator[dict[str, Service]]:
    """Everyone at once; who is not asked uses no CPU."""
    with contextlib.ExitStack() as running:
        monolith = {
            prepare: running.enter_context(
                services.uvicorn(
                    "monolith", {"BENCH_PREPARE": prepare, "BENCH_ONNX": onnx.get(prepare, "")}
                )
            )
            for prepare in ("opencv", "ours")
        }
        yield {
            ENSEMBLE: services.ensemble(server),
            GATEWAY: running.enter_context(_gateway(server, "opencv")),
            GATEWAY_FAST: running.enter_context(_gateway(server, "ours")),
            MONOLITH: monolith["opencv"],
            MONOLITH_FAST: monolith["ours"],
        }


def _gateway(
    server: EmbeddedServer, prepare: str, workers: int = 1
) -> contextlib.AbstractContextManager[Service]:
    settings = {
        "BENCH_PREPARE": prepare,
        "BENCH_TRITON": server.http_address,
        "BENCH_MODEL": f"{PIPELINE}_inference" if prepare == "ours" else TUTORIAL_MODEL,
    }
    return services.uvicorn("gateway", settings, workers, beside=(server.pid,))
