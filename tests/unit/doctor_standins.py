"""Stand-ins for docker and nvidia-smi, and how the doctor's tests look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine_standins import executable

from doctor_checks import machine
from doctor_checks.finding import Finding, Status
from doctor_checks.project import Project
from embedded.preflight import free_ports


def docker(tools: Path, *, engine: str = "28.2.2", compose: str = "2.40.3", runtimes: str = "{}",
           root: str = "/", images: str = "abc", up: bool = True) -> None:  # fmt: skip
    """A stand-in for docker that answers the doctor's five questions."""
    executable(
        tools / "docker",
        f"""#!/bin/sh
# stand-in
[ {int(up)} = 1 ] || {{ echo "Cannot connect to the Docker daemon"; exit 1; }}
case "$*" in
  "compose version"*) [ -n "{compose}" ] && echo "{compose}" || exit 1 ;;
  version*) echo "{engine}" ;;
  *Runtimes*) echo '{runtimes}' ;;
  *DockerRootDir*) echo "{root}" ;;
  images*) echo "{images}" ;;
esac
""",
    )


def nvidia_smi(tools: Path, *gpus: str) -> None:
    executable(tools / "nvidia-smi", "#!/bin/sh\n" + "\n".join(f"echo '{g}'" for g in gpus) + "\n")


def look(check: Callable[[Project], list[Finding]], checkout: Path, **environ: str) -> Finding:
    """The only finding of a check."""
    (finding,) = check(Project.load(checkout, environ))
    assert finding.status in (Status.OK, Status.NOT_APPLICABLE) or finding.fix
    return finding


def ports(**changes: int) -> dict[str, str]:
    """Five free ports, some of them replaced."""
    free = dict(zip(machine.PORTS, free_ports(len(machine.PORTS)), strict=True))
    return {name: str(port) for name, port in {**free, **changes}.items()}
