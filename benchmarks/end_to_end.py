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
from benchmarks.measuring import Bodies, Say
from benchmarks.repositories import PIPELINE, TUTORIAL_MODEL, Variant, bare_network
from benchmarks.services import Service
from embedded import EmbeddedServer

ENSEMBLE = "ensemble"
GATEWAY, GATEWAY_2, GATEWAY_FAST = "gateway", "gateway, 2 workers", "gateway, our preprocess"
MONOLITH, MONOLITH_FAST = "monolith", "monolith, our preprocess"
_SEVERAL = 8
_MANY_CLIENTS = 16
# A rate at which one request in twenty waits longer than this is too much for the contender.
_OVERLOADED_P95_MS = 500.0


def null_inference(rounds: int, seconds: float, clients: Sequence[int], say: Say) -> dict[str, Any]:
    """Closed loop at several numbers of clients, then the ensemble with several images each."""
    with contextlib.ExitStack() as running:
        server = running.enter_context(services.tritonserver(Variant()))
        everyone = running.enter_context(_contenders(server, onnx={}))
        everyone[GATEWAY_2] = running.enter_context(_gateway(server, "opencv", workers=2))
        with Bodies("in500") as one:
            say(f"null inference: {len(everyone)} contenders, {rounds} rounds")
            samples = measuring.in_turn(everyone, one, clients, rounds, seconds)
            by_model = measuring.cpu_ms_by_model(
                everyone[ENSEMBLE], one, _MANY_CLIENTS, rounds, seconds
            )
        ensemble = {ENSEMBLE: everyone[ENSEMBLE]}
        with Bodies("in500", images_per_request=_SEVERAL) as several:
            batches = measuring.in_turn(ensemble, several, [4], rounds, seconds)
        memory = {name: round(process_tree.pss_MB(*s.pids)) for name, s in everyone.items()}
    return {
        "size": "in500",
        "rounds": rounds,
        "seconds": seconds,
        "rows": measuring.rows(samples),
        "ensemble_over": measuring.compared(samples, ENSEMBLE),
        "several": {"images_per_request": _SEVERAL, **measuring.rows(batches)[0]},
        "pss_MB": memory,
        "cpu_ms_by_model": {
            name.removeprefix(f"{PIPELINE}_"): figure
            for name, figure in by_model.items()
            if name != TUTORIAL_MODEL
        },
    }


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
