"""What the measured constants mean for another machine: cores, instances, batch, memory, latency.

An estimate from one host's figures, to start from and to measure against. Queueing follows the
M/G/c approximation W = S / c · u^(√(2(c+1)) − 1) / (1 − u) · (1 + variation) / 2 (Sakasegawa), with
S the service time, c servers, u utilisation; variation is the squared coefficient of variation.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.laws import HEAVY, LAWS, MAX_BATCH
from benchmarks.repositories import Law
from benchmarks.results import BENCH

# Above this share of a resource, queues grow faster than anyone plans for.
MAX_UTILISATION = 0.7
# docker-compose.yml: shm-default-byte-size of each Python stub.
_STUB_REGION_MB = 8
_ROW_MB = 224 * 224 * 3 / 1e6
_IMAGE_NAMES = {"500x375": "in500", "1080p": "hd1080", "12mp": "mp12"}


@dataclass(frozen=True)
class ImageCost:
    """One size of picture on the measured host, per image."""

    name: str
    cpu_ms: float
    preprocess_ms: float
    alone_ms: float
    body_kB: float


@dataclass(frozen=True)
class Plan:
    """What the rate needs. Utilisations 0..1 of what is given; ``hosts`` of that kind."""

    gpu: str
    image: str
    rate_per_s: float
    cores_given: int
    cores_needed: float
    core_utilisation: float
    gpu_utilisation: float
    batch: int
    preprocess_instances: int
    threads_per_instance: int
    shm_MB: int
    latency_p50_ms: float | None
    hosts: int
    limit: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class CapacityError(ValueError):
    """A question that the measured constants cannot answer; one line."""


def image_names() -> list[str]:
    """How a picture's size may be called."""
    return [*_IMAGE_NAMES, *_IMAGE_NAMES.values()]


def gpu_names() -> list[str]:
    """The cards with a latency law."""
    return [*LAWS, *HEAVY]


def image_cost(image: str, results: Path = BENCH) -> ImageCost:
    """The measured constants of a size. CapacityError without results."""
    try:
        measured = json.loads(results.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CapacityError(f"{results} cannot be read: {error}") from None
    size = _IMAGE_NAMES.get(image, image)
    loaded, alone = (
        next(r for r in measured["sizes"] if r["size"] == size and r["clients"] == clients)
        for clients in (4, 1)
    )
    single = next(
        row
        for row in measured["preprocess"]["single"]
        if row["size"] == size and row["format"] == "jpeg"
    )
    return ImageCost(
        size,
        loaded["cpu_ms"]["median"],
        single["ms"]["ours"]["median"],
        alone["p50_ms"]["median"],
        loaded["body_kB"],
    )


def plan(gpu: str, cores: int, image: str, rate_per_s: float, results: Path = BENCH) -> Plan:
    """What ``rate_per_s`` images per second of that size need on hosts of one card each."""
    if cores < 1 or rate_per_s <= 0:
        raise CapacityError("CORES must be at least 1 and RATE above 0")
    cost, law = image_cost(image, results), {**LAWS, **HEAVY}[gpu]
    cores_needed = rate_per_s * cost.cpu_ms / 1e3 / MAX_UTILISATION
    gpus_needed = rate_per_s / law.images_per_s(MAX_BATCH) / MAX_UTILISATION
    hosts = max(1, math.ceil(cores_needed / cores), math.ceil(gpus_needed))
    rate = rate_per_s / hosts
    batch = _batch(law, rate)
    core_use = rate * cost.cpu_ms / 1e3 / cores
    gpu_use = rate / law.images_per_s(batch)
    instances, threads = _instances(cores)
    latency = _latency_ms(cost, law, batch, rate, cores)
    return Plan(
        gpu,
        cost.name,
        rate_per_s,
        cores,
        round(cores_needed, 1),
        round(core_use, 2),
        round(gpu_use, 2),
        batch,
        instances,
        threads,
        _shm_MB(cost, rate, latency, instances),
        round(latency, 1),
        hosts,
        "preprocessing (CPU)" if cores_needed / cores >= gpus_needed else "inference (GPU)",
    )


def _batch(law: Law, rate: float) -> int:
    """The smallest batch with which the card keeps up below MAX_UTILISATION."""
    for batch in range(1, MAX_BATCH + 1):
        if rate <= MAX_UTILISATION * law.images_per_s(batch):
            return batch
    return MAX_BATCH


def _instances(cores: int) -> tuple[int, int]:
    """One process up to 4 cores, then one per 4: beyond that, Python's lock is the limit.

    Each image holds the lock for about a quarter of its time at 500 × 375.
    """
    instances = max(1, round(cores / 4))
    return instances, math.ceil(cores / instances)


def _latency_ms(cost: ImageCost, law: Law, batch: int, rate: float, cores: int) -> float:
    """Median: the lone request as measured, plus the card, plus what it waits for both."""
    # Decoding times vary by as much as their mean; a card's do not.
    for_cpu = _wait_ms(cost.cpu_ms, cores, rate * cost.cpu_ms / 1e3 / cores, variation=1)
    service = law.batch_ms(batch)
    for_gpu = _wait_ms(service, 1, rate / law.images_per_s(batch), variation=0)
    return cost.alone_ms + service + for_cpu + for_gpu


def _wait_ms(service_ms: float, servers: int, utilisation: float, variation: float) -> float:
    used = min(utilisation, 0.99)
    power = math.sqrt(2 * (servers + 1)) - 1
    return service_ms / servers * used**power / (1 - used) * (1 + variation) / 2


def _shm_MB(cost: ImageCost, rate: float, latency_ms: float, instances: int) -> int:
    """Twice what is in flight (Little's law, and twice that for bursts), and every stub's region.

    Stubs: the instances, one postprocess, and as many again while a version is replaced.
    """
    in_flight = max(4.0, 2 * rate * latency_ms / 1e3)
    tensors_MB = 2 * in_flight * (cost.body_kB / 1e3 + _ROW_MB)
    needed = tensors_MB + 2 * (instances + 1) * _STUB_REGION_MB
    return 64 * math.ceil(needed / 64)
