"""Queue delay, batching and instances, with a simulated GPU behind the inference step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import requests

from benchmarks import measuring, process_tree, services
from benchmarks.laws import HEAVY, LAWS, capacity_images_per_s
from benchmarks.measuring import Bodies, Say
from benchmarks.repositories import PIPELINE, Law, Variant
from embedded import EmbeddedError, EmbeddedServer

_BASE = Variant(law=LAWS["t4"])
SHIPPED = "as shipped: 1 + 1 instances, 500 µs"
# Each differs from what is shipped in one thing.
VARIANTS: dict[str, Variant] = {
    SHIPPED: _BASE,
    "no dynamic batching": replace(_BASE, queue_delay_us=None),
    "queue delay 5 ms": replace(_BASE, queue_delay_us=5_000),
    "2 preprocess instances, 1 thread each": replace(
        _BASE, preprocess_instances=2, preprocess_threads=1
    ),
    "2 ms batching on the Python steps": replace(_BASE, python_queue_delay_us=2_000),
}
TUTORIAL = "tutorial: 32 + 32 instances, 100 ms delay everywhere"
_TUTORIAL_VARIANT = replace(
    _BASE,
    queue_delay_us=100_000,
    python_queue_delay_us=100_000,
    preprocess_instances=32,
    postprocess_instances=32,
    preprocess_threads=1,
)
_LOADS = ((1, 1), (16, 1), (4, 8))  # clients, images per request


def grid() -> dict[str, Variant]:
    """Every combination of delay and instances, for the full run."""
    return {
        f"delay {delay} µs, {instances} instances": replace(
            _BASE,
            queue_delay_us=delay,
            preprocess_instances=instances,
            preprocess_threads=0 if instances == 1 else 1,
        )
        for delay in (0, 500, 2_000, 10_000)
        for instances in (1, 2, 4)
    }


def run(
    rounds: int, seconds: float, say: Say, variants: Mapping[str, Variant] = VARIANTS
) -> list[dict[str, Any]]:
    """A row per variant and load."""
    found = []
    for name, variant in variants.items():
        say(f"sweep: {name}")
        found += _variant(name, variant, rounds, seconds)
    say(f"sweep: {TUTORIAL}")
    try:
        found += _variant(TUTORIAL, _TUTORIAL_VARIANT, rounds, seconds)
    except EmbeddedError as error:
        # 64 processes that start at once are too much for a small or busy machine.
        say(f"left out, since it does not start: {str(error).splitlines()[0]}")
    return found


def _variant(name: str, variant: Variant, rounds: int, seconds: float) -> list[dict[str, Any]]:
    with services.tritonserver(variant) as server:
        return [{"variant": name, **row} for row in _loads(server, rounds, seconds)]


def _loads(server: EmbeddedServer, rounds: int, seconds: float) -> list[dict[str, Any]]:
    rows = []
    service = services.ensemble(server)
    for clients, images in _LOADS:
        with Bodies("in500", images) as bodies:
            taken = measuring.in_turn({"": service}, bodies, [clients], rounds, seconds)
        rows.append(
            {
                "clients": clients,
                "images_per_request": images,
                "pss_MB": round(process_tree.pss_MB(server.pid)),
                **measuring.figures(taken[""][clients]),
            }
        )
    return rows


def simulated_gpus(rounds: int, seconds: float, say: Say) -> list[dict[str, Any]]:
    """Each card with 32 clients; the heavy network also without dynamic batching."""
    found = []
    cases: list[tuple[str, Law, int | None]] = [(n, law, 500) for n, law in LAWS.items()]
    for name, law in HEAVY.items():
        cases += [(name, law, 500), (name, law, None)]
    for name, law, delay_us in cases:
        say(f"simulated GPU: {name}, {'batching' if delay_us else 'no batching'}")
        with (
            services.tritonserver(Variant(law=law, queue_delay_us=delay_us)) as server,
            Bodies("in500") as bodies,
        ):
            service = services.ensemble(server)
            measuring.warm_up({"": service}, bodies)
            before = _executions(server)
            taken = [measuring.sample(service, bodies, 32, seconds) for _ in range(rounds)]
            images, batches = (b - a for a, b in zip(before, _executions(server)))
        figures = measuring.figures(taken)
        found.append(
            {
                "gpu": name,
                "dynamic_batching": delay_us is not None,
                "fixed_us": law.fixed_us,
                "per_image_us": law.per_image_us,
                "capacity_images_per_s": round(capacity_images_per_s(law)),
                "mean_batch": round(images / batches, 2),
                "gpu_busy_percent": _busy_percent(law, images / batches, figures),
                **figures,
            }
        )
    return found


def _busy_percent(law: Law, mean_batch: float, figures: dict[str, dict[str, float]]) -> float:
    per_image_ms = (law.fixed_us / mean_batch + law.per_image_us) / 1e3
    return round(min(100.0, figures["images_per_s"]["median"] * per_image_ms / 10), 1)


def _executions(server: EmbeddedServer) -> Sequence[float]:
    """Images and batches that the inference step has run."""
    text = requests.get(server.metrics_url, timeout=10).text
    wanted = f'model="{PIPELINE}_inference"'
    return [
        next(
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith(f"{name}{{") and wanted in line
        )
        for name in ("nv_inference_count", "nv_inference_exec_count")
    ]
