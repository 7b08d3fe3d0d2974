"""Observations on their way to Triton: a bounded queue and one thread that empties it.

One ``observe()`` or ``increment()`` of Triton's Python stub is a round trip to the server process:
about 20 µs, all of them with the interpreter lock held. The request path therefore only appends to
a queue (well under 1 µs), and a thread of our own makes the calls: increments of one counter are
added up to one call, exact histograms get every value, sampled ones at most SAMPLES_PER_FLUSH.

A call that the server refuses can abort the whole server, and ``try``/``except`` does not prevent
that. Hence every value is checked before the call, and after one refusal no further call is made.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

FLUSH_INTERVAL_S = 0.25
PROBE_INTERVAL_S = 5.0
# Each call keeps the interpreter lock; after so many a waiting request gets it, about 0.2 ms late.
CALLS_WITHOUT_PAUSE = 8
SAMPLES_PER_FLUSH = 4
QUEUE_CAPACITY = 65_536
_JOIN_TIMEOUT_S = 10.0


@dataclass(frozen=True, eq=False)
class Series:
    """One Triton metric: a counter, or a histogram that gets every value or a random sample."""

    native: Any
    is_counter: bool
    is_sampled: bool = False


Observation = tuple[Series, float]


@dataclass(frozen=True)
class Probe:
    """A gauge that the recorder's thread sets to what ``read`` returns."""

    native: Any
    read: Callable[[], float]


class Recorder:
    """Takes observations from any thread and hands them to Triton from a single one.

    Probes are read every PROBE_INTERVAL_S, from the first observation on.

    A Triton metric object keeps the value of the call in progress in itself, so two threads must
    never use the same one: after construction only the flush thread (or ``close``) does.
    """

    def __init__(
        self, lost: Series, log_error: Callable[[str], None], probes: Sequence[Probe] = ()
    ) -> None:
        self._lost = lost
        self._probes = probes
        self._log_error = log_error
        self._queue: deque[Sequence[Observation]] = deque()
        self._lost_count = 0
        self._calls = 0
        self._refused = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()

    def record(self, *observations: Observation) -> None:
        """Queue observations; drops and counts them when the queue is full. Never blocks."""
        if len(self._queue) >= QUEUE_CAPACITY:
            self._lost_count += len(observations)
            return
        self._queue.append(observations)
        if self._thread is None:
            self._start()

    def close(self) -> None:
        """Hand over what is queued and stop the thread; later observations are never sent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_JOIN_TIMEOUT_S)
            if self._thread.is_alive():
                return
        self.flush()

    def flush(self) -> None:
        """Send everything queued at this moment. Called by one thread at a time."""
        increments: dict[Series, float] = defaultdict(float)
        observations: dict[Series, list[float]] = defaultdict(list)
        queued = [self._queue.popleft() for _ in range(len(self._queue))]
        for series, value in chain.from_iterable(queued):
            if not _is_sound(value) or (series.is_counter and value < 0):
                self._lost_count += 1
            elif series.is_counter:
                increments[series] += value
            else:
                observations[series].append(value)
        lost, self._lost_count = self._lost_count, 0
        if lost:
            increments[self._lost] += lost
        for series, total in increments.items():
            self._call(series.native.increment, total)
        for series, values in observations.items():
            is_crowded = series.is_sampled and len(values) > SAMPLES_PER_FLUSH
            for value in random.sample(values, SAMPLES_PER_FLUSH) if is_crowded else values:
                self._call(series.native.observe, value)

    def _call(self, operation: Callable[[float], None], value: float) -> None:
        if self._refused:
            return
        try:
            operation(float(value))
        except Exception as error:
            self._refused = True
            self._log_error(f"Triton refused a metric call; metrics of this process stop: {error}")
        self._calls += 1
        if self._calls % CALLS_WITHOUT_PAUSE == 0:
            time.sleep(0)

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        next_probe_s = 0.0
        while not self._stopping.wait(FLUSH_INTERVAL_S):
            if self._queue or self._lost_count:
                self.flush()
            if time.monotonic() >= next_probe_s:
                next_probe_s = time.monotonic() + PROBE_INTERVAL_S
                for probe in self._probes:
                    self._call(probe.native.set, probe.read())


def _is_sound(value: object) -> bool:
    # A single NaN would turn a histogram's sum into NaN for ever.
    return isinstance(value, (int, float)) and math.isfinite(value)
