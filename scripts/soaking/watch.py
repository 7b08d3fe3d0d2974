"""Memory and processes of a server, looked at every second."""

from __future__ import annotations

import statistics
import threading
from dataclasses import dataclass, field
from pathlib import Path

import psutil

INTERVAL_S = 1.0
_LEAST_SAMPLES = 2
_SHARED_MEMORY = Path("/dev/shm")


@dataclass
class Watcher:
    """Samples of one embedded server: resident bytes without shared pages, shared memory bytes."""

    pid: int
    shm_prefix: str
    resident: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stubs = {process.pid for process in psutil.Process(self.pid).children(recursive=True)}

    def run(self, stop: threading.Event) -> None:
        """Sample until told to stop."""
        while not stop.wait(INTERVAL_S):
            self.look()

    def look(self) -> None:
        """One sample; a process that is gone or a zombie is noted once."""
        resident = 0
        for pid in (self.pid, *sorted(self._stubs)):
            try:
                process = psutil.Process(pid)
                if process.status() == psutil.STATUS_ZOMBIE:
                    raise psutil.NoSuchProcess(pid)
                info = process.memory_info()
                resident += info.rss - info.shared
            except psutil.NoSuchProcess:
                if str(pid) not in self.lost:
                    self.lost.append(str(pid))
        self.resident.append(resident)
        regions = _SHARED_MEMORY.glob(f"{self.shm_prefix}*")
        # Blocks, not lengths: a region's unused pages take no memory.
        self.shared.append(sum(region.stat().st_blocks * 512 for region in regions))


def growth(samples: list[int]) -> int:
    """How much the floor rose from the middle third to the last; the first is the warm-up.

    The floor is the lower quartile. What a flood of large images takes for its moment comes and
    goes and says nothing; what is never given back raises the floor.
    """
    third = len(samples) // 3
    if third < _LEAST_SAMPLES:
        return 0
    middle, last = samples[third : 2 * third], samples[2 * third :]
    return round(_lower_quartile(last) - _lower_quartile(middle))


def _lower_quartile(samples: list[int]) -> float:
    return statistics.quantiles(samples, n=4, method="inclusive")[0]
