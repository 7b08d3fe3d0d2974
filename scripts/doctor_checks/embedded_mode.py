"""Embedded mode: glibc, libpython, stub, numpy, packages, by its own preflight."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from doctor_checks.finding import Finding, not_applicable, problem, warning
from doctor_checks.project import Project
from embedded.errors import PreflightError
from embedded.layout import INSTALL_HINT
from embedded.preflight import check_machine

CHECK = "embedded mode"


def check_embedded(project: Project) -> list[Finding]:
    """Whether this Python on this machine can run the wheel's server."""
    if importlib.util.find_spec("pytriton") is None:
        return [not_applicable(CHECK, "nvidia-pytriton is not installed", INSTALL_HINT)]
    try:
        check_machine()
    except PreflightError as error:
        cause, _, fix = str(error).rpartition(": ")
        return [problem(CHECK, cause or str(error), fix if cause else INSTALL_HINT)]
    except (OSError, subprocess.SubprocessError) as error:
        return [problem(CHECK, f"the preflight does not run: {error}", INSTALL_HINT)]
    return _left_behind()


def _left_behind() -> list[Finding]:
    regions = list(Path("/dev/shm").glob("*triton*"))
    if not regions or _runs("tritonserver"):
        return []
    size_mib = sum(path.stat().st_size for path in regions) >> 20
    return [
        warning(
            CHECK,
            f"{len(regions)} regions of dead servers hold {size_mib} MiB of /dev/shm "
            f"({shutil.disk_usage('/dev/shm').free >> 20} MiB free)",
            "rm /dev/shm/*triton* while no server runs",
        )
    ]


def _runs(program: str) -> bool:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if Path(entry.path, "comm").read_text().strip() == program[:15]:
                    return True
            except OSError:
                continue
    return False
