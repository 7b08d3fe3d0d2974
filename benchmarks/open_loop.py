"""Open-loop load: requests arrive at a fixed mean rate, whether or not earlier ones were answered.

Latency counts from the instant at which a request was due, not from when it could be sent: a server
that stalls makes every request behind the stall late, and all of that is counted (no coordinated
omission). Arrivals are a Poisson process with a fixed seed. The generator's own lateness is
reported too: where that is not small, the generator was the limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np

_TIMEOUT_S = 10.0
_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class OpenLoad:
    """What one run measured; a request that failed or timed out counts in ``failed`` alone."""

    offered_per_s: float
    answered_per_s: float
    failed: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    generator_late_p99_ms: float


def run(url: str, bodies: Sequence[bytes], rate: float, seconds: float, seed: int = 0) -> OpenLoad:
    """Offer ``rate`` requests per second for a while."""
    return asyncio.run(_run(url, bodies, rate, seconds, seed))


async def _run(
    url: str, bodies: Sequence[bytes], rate: float, seconds: float, seed: int
) -> OpenLoad:
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1 / rate, round(rate * seconds))
    due_s = np.cumsum(gaps)
    lateness = np.zeros(len(due_s))
    latency = np.full(len(due_s), np.nan)
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        started = time.perf_counter() + 0.05

        async def ask(number: int) -> None:
            due = started + due_s[number]
            lateness[number] = time.perf_counter() - due
            try:
                body = bodies[number % len(bodies)]
                async with session.post(url, data=body, headers=_HEADERS) as answer:
                    await answer.read()
                    if answer.status == 200:
                        latency[number] = time.perf_counter() - due
            except (aiohttp.ClientError, asyncio.TimeoutError):
                pass

        tasks = []
        for number, offset in enumerate(due_s):
            wait = started + offset - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(ask(number)))
        await asyncio.gather(*tasks)
        elapsed = time.perf_counter() - started
    return _measured(rate, elapsed, latency, lateness)


def _measured(rate: float, elapsed_s: float, latency: np.ndarray, lateness: np.ndarray) -> OpenLoad:
    answered = latency[~np.isnan(latency)]
    quantiles = np.percentile(answered, (50, 95, 99)) * 1e3 if len(answered) else (np.inf,) * 3
    p50, p95, p99 = (round(float(q), 2) for q in quantiles)
    return OpenLoad(
        rate,
        round(len(answered) / elapsed_s, 1),
        len(latency) - len(answered),
        p50,
        p95,
        p99,
        round(float(np.percentile(lateness, 99)) * 1e3, 2),
    )
