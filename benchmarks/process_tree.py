"""What a server and everything it started take: CPU seconds and memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil


def processes(pid: int) -> Iterator[psutil.Process]:
    """The process and all its descendants that are alive."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        yield root
        yield from root.children(recursive=True)


def cpu_s(*pids: int) -> float:
    """User and system seconds that the trees have used so far."""
    total = 0.0
    for pid in pids:
        for process in processes(pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
    return total


def cpu_s_by_model(pid: int) -> dict[str, float]:
    """``cpu_s`` of a tritonserver's tree, by the model a stub runs; ``tritonserver`` is itself."""
    found: dict[str, float] = {}
    for process in processes(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            name = _model(process) or "tritonserver"
            times = process.cpu_times()
            found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def pss_MB(*pids: int) -> float:
    """Proportional set size of the trees: shared pages count once."""
    return sum(_pss_MB(process) for pid in pids for process in processes(pid))


def stub_pss_MB(pid: int) -> dict[str, list[float]]:
    """Proportional set size of each Python stub of a tritonserver, by the model it runs."""
    found: dict[str, list[float]] = {}
    for process in processes(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            model = _model(process)
            if model:
                found.setdefault(model, []).append(round(_pss_MB(process), 1))
    return found


def _pss_MB(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss) / 1e6
    except psutil.NoSuchProcess:
        return 0.0


def _model(process: psutil.Process) -> str | None:
    files = [word for word in process.cmdline() if word.endswith("/model.py")]
    return files[0].split("/")[-3] if files and "stub" in process.name() else None
