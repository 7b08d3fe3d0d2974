"""One sample of a service under closed-loop load, and tables of several services taken in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import closed_loop, process_tree, services
from benchmarks.services import Service
from benchmarks.timing import Figure, ratios

_WARM_UP_S = 0.5
# What a sample measures, and by which key the results name it.
QUANTITIES = ("images_per_s", "p50_ms", "p95_ms", "p99_ms", "cpu_ms")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sample:
    """Images per second, latency of a request, and CPU of all server processes per image."""

    images_per_s: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    cpu_ms: float


# By contender and number of clients, in the order of the rounds.
Samples = dict[str, dict[int, list[Sample]]]


class Bodies:
    """Request bodies in files, where wrk reads them; gone when closed."""

    def __init__(self, size: str, images_per_request: int = 1, format_name: str = "jpeg") -> None:
        self.images_per_request = images_per_request
        self.contents = services.bodies(size, images_per_request, format_name)
        self._folder = tempfile.TemporaryDirectory(prefix="bench-bodies-")
        self.files: list[Path] = []
        for number, content in enumerate(self.contents):
            file = Path(self._folder.name) / f"{number}.json"
            file.write_bytes(content)
            self.files.append(file)

    def __enter__(self) -> Bodies:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def sample(service: Service, bodies: Bodies, clients: int, seconds: float) -> Sample:
    """Load the service for a while. LoadError where any request fails."""
    before_s = process_tree.cpu_s(*service.pids)
    load = closed_loop.run(service.url, bodies.files, clients, seconds)
    used_s = process_tree.cpu_s(*service.pids) - before_s
    images = load.requests * bodies.images_per_request
    return Sample(
        images / load.seconds, load.p50_ms, load.p95_ms, load.p99_ms, used_s / images * 1e3
    )


def cpu_ms_by_model(
    triton: Service, bodies: Bodies, clients: int, seconds: float
) -> dict[str, float]:
    """CPU per image of tritonserver itself and of each model's stubs, in ms."""
    (pid,) = triton.pids
    before_s = process_tree.cpu_s_by_model(pid)
    load = closed_loop.run(triton.url, bodies.files, clients, seconds)
    images = load.requests * bodies.images_per_request
    return {
        name: (used_s - before_s[name]) / images * 1e3
        for name, used_s in process_tree.cpu_s_by_model(pid).items()
    }


def warm_up(contenders: Mapping[str, Service], bodies: Bodies) -> None:
    """Check one answer of each, then a short load, which is not counted."""
    for service in contenders.values():
        services.check_answer(service, bodies.contents[0])
        closed_loop.run(service.url, bodies.files, 4, _WARM_UP_S)


def in_turn(
    contenders: Mapping[str, Service],
    bodies: Bodies,
    clients: Sequence[int],
    rounds: int,
    seconds: float,
) -> Samples:
    """Every round visits everyone."""
    warm_up(contenders, bodies)
    samples: Samples = {name: {count: [] for count in clients} for name in contenders}
    for _ in range(rounds):
        for count in clients:
            for name, service in contenders.items():
                samples[name][count].append(sample(service, bodies, count, seconds))
    return samples


def extend(samples: Samples, more: Samples) -> None:
    """Add the samples of another visit."""
    for name, by_clients in more.items():
        for count, taken in by_clients.items():
            samples.setdefault(name, {}).setdefault(count, []).extend(taken)


def rows(samples: Mapping[str, Mapping[int, Sequence[Sample]]]) -> list[dict[str, Any]]:
    """A row per contender and number of clients, with every quantity as a Figure."""
    return [
        {"contender": name, "clients": count, **figures(taken)}
        for name, by_clients in samples.items()
        for count, taken in by_clients.items()
    ]


def figures(taken: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Every quantity of some samples as a Figure."""
    return {key: Figure.of([getattr(one, key) for one in taken]).to_json() for key in QUANTITIES}


def compared(
    samples: Mapping[str, Mapping[int, Sequence[Sample]]], ours: str
) -> list[dict[str, Any]]:
    """Ours over each other contender, round by round: speed up, P99 and CPU down is better."""
    return [
        {
            "contender": name,
            "clients": count,
            **{
                key: ratios(
                    [getattr(one, key) for one in samples[ours][count]],
                    [getattr(one, key) for one in taken],
                ).to_json()
                for key in ("images_per_s", "p50_ms", "p99_ms", "cpu_ms")
            },
        }
        for name, by_clients in samples.items()
        if name != ours
        for count, taken in by_clients.items()
    ]
