"""What differs between NGC releases, and configuration that a release would not understand.

Sources: NVIDIA's Triton compatibility matrix and the branches of triton-inference-server (server,
core); CUDA's minor-version-compatibility page for drivers; the release notes of 24.04, 25.08, 25.10
and 26.07 for compute capabilities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from doctor_checks.finding import Finding, passed, problem, warning
from doctor_checks.model_configs import read_configs
from doctor_checks.project import Project
from embedded.errors import PreflightError
from embedded.flags import compose_flags

CHECK_RELEASE = "NGC release"
CHECK_GATES = "keys and flags known"

# The wheel of embedded mode reads the same configurations and flags.
EMBEDDED_RELEASE = "24.10"
# Dead Python stubs no longer answer ready, ensembles no longer hang on a full queue.
OLDEST_RELIED_ON = "26.04"


@dataclass(frozen=True)
class Release:
    """One NGC month: TensorRT version as far as it is known, and the driver in its CUDA."""

    triton: str
    tensorrt: str
    bundled_driver: str
    cuda_major: int

    @property
    def oldest_driver_branch(self) -> int:
        """The oldest driver branch that CUDA's minor-version compatibility allows."""
        return 580 if self.cuda_major >= 13 else 525

    @property
    def oldest_compute_capability(self) -> tuple[int, int]:
        """Turing since CUDA 13, Pascal before."""
        return (7, 5) if self.cuda_major >= 13 else (6, 0)


RELEASES = {
    "24.10": Release("2.51.0", "10.5", "560.35.03", 12),
    "25.07": Release("2.59.1", "10", "575.51.03", 12),
    "25.08": Release("2.60.0", "10.13", "580.82.07", 13),
    "25.09": Release("2.61.0", "10", "580.82.07", 13),
    "25.10": Release("2.62.0", "10", "580.95.05", 13),
    "25.11": Release("2.63.0", "10.14.1", "580.95.05", 13),
    "25.12": Release("2.64.0", "10.14.1", "590.44.01", 13),
    "26.01": Release("2.65.0", "10", "590.48.01", 13),
    "26.02": Release("2.66.0", "10", "590.48.01", 13),
    "26.03": Release("2.67.0", "10.16.0", "595.45.04", 13),
    "26.04": Release("2.68.0", "10.16.1", "595.58.03", 13),
    "26.05": Release("2.69.0", "10.16.1", "595.58.03", 13),
    "26.06": Release("2.70.0", "11.0", "610.43.02", 13),
    "26.07": Release("2.71.0", "11.1.0", "610.43.02", 13),
    "26.08": Release("2.72.0", "11.2.1", "615.61", 13),
    "26.09": Release("2.73.0", "11", "615.61", 13),
}

# Fields of a model configuration and server flags that older releases refuse: first release.
GATED_FIELDS = {"max_inflight_requests": "25.11"}
GATED_FLAGS = {
    "--http-max-input-size": "25.06",
    "--grpc-infer-thread-count": "25.04",
    "--grpc-max-response-pool-size": "25.04",
    "--allow-client-shm": "26.04",
}
OBSOLETE_FLAGS = {
    "--response-cache-byte-size": "--cache-config=local,size=BYTES",
    "--strict-model-config": "--disable-auto-complete-config",
}


def check_release(project: Project) -> list[Finding]:
    """A release that is misspelt, unknown, or older than what this bundle relies on."""
    name = project.ngc_release
    if not re.fullmatch(r"\d\d\.\d\d", name):
        return [
            problem(
                CHECK_RELEASE, f"NGC_RELEASE is {name!r}", "write year.month in .env, as in 26.05"
            )
        ]
    if name not in RELEASES:
        return [
            warning(
                CHECK_RELEASE,
                f"NGC_RELEASE {name} is not in this bundle's table, so driver, GPU and TensorRT "
                "are not checked against it",
                f"known are {', '.join(RELEASES)}",
            )
        ]
    if name < OLDEST_RELIED_ON:
        return [
            warning(
                CHECK_RELEASE,
                f"before {OLDEST_RELIED_ON} a server with a dead Python stub still answers ready",
                f"use {OLDEST_RELIED_ON} or newer; 25.07 only where the driver is below 580",
            )
        ]
    release = RELEASES[name]
    detail = f"{name}: Triton {release.triton}, TensorRT {release.tensorrt}"
    return [passed(CHECK_RELEASE, detail)]


def check_gates(project: Project) -> list[Finding]:
    """Configuration fields and server flags newer than a server that reads them."""
    findings: list[Finding] = []
    for file in read_configs(project).files:
        for field in sorted(set(_fields(file.config)) & GATED_FIELDS.keys()):
            # Embedded mode reads configs/cpu.pbtxt, or config.pbtxt where there is none.
            embedded = file.variant in ("", "cpu")
            findings += _gate(project, f"{file.label}: {field}", GATED_FIELDS[field], embedded)
    try:
        flags = compose_flags(project.root / "docker-compose.yml", project.settings)
    except PreflightError as error:
        return [*findings, problem(CHECK_GATES, str(error), "restore the triton service's command")]
    for flag in sorted({word.partition("=")[0] for word in flags}):
        if flag in GATED_FLAGS:
            label = f"docker-compose.yml: {flag}"
            findings += _gate(project, label, GATED_FLAGS[flag], embedded=True)
        if flag in OBSOLETE_FLAGS:
            findings.append(
                warning(
                    CHECK_GATES,
                    f"docker-compose.yml: {flag} is deprecated",
                    f"write {OBSOLETE_FLAGS[flag]}",
                )
            )
    return findings


def _gate(project: Project, what: str, since: str, embedded: bool) -> Iterator[Finding]:
    if project.ngc_release < since:
        yield problem(
            CHECK_GATES,
            f"{what} is known since {since}, NGC_RELEASE is {project.ngc_release}",
            f"remove it, or set NGC_RELEASE to {since} or newer",
        )
    if embedded and since > EMBEDDED_RELEASE:
        yield problem(
            CHECK_GATES,
            f"{what} is known since {since}, the embedded server is {EMBEDDED_RELEASE} and "
            "would not start",
            "keep it out of what embedded mode reads (configs/cpu.pbtxt or config.pbtxt, and the "
            "triton command in docker-compose.yml)",
        )


def _fields(message: Any) -> Iterator[str]:
    for descriptor, value in message.ListFields():
        yield descriptor.name
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for part in value if hasattr(value, "add") else [value]:
            yield from _fields(part)
