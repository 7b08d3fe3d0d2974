"""GPU, driver and container toolkit against what NGC_RELEASE needs."""

from __future__ import annotations

import re

from doctor_checks.finding import Finding, not_applicable, passed, problem, warning
from doctor_checks.project import Project, ask, version_numbers
from doctor_checks.releases import RELEASES, Release
from engine import EnvironmentProblem
from engine.host import Gpu, query_gpus

CHECK_GPU = "GPU and driver"
CHECK_TOOLKIT = "NVIDIA container toolkit"
CPU_HINT = "without a GPU: COMPOSE_FILE=docker-compose.yml:compose.cpu.yml in .env"
# Fixes CVE-2025-23266, a way out of a container.
OLDEST_SAFE_TOOLKIT = (1, 17, 8)


def check_gpu(project: Project) -> list[Finding]:
    """Driver branch and compute capability of every GPU; not applicable where none is wanted."""
    if project.model_config == "cpu":
        return [not_applicable(CHECK_GPU, "MODEL_CONFIG is cpu")]
    try:
        gpus = query_gpus()
    except EnvironmentProblem as error:
        if project.needs_gpu:
            return [
                problem(CHECK_GPU, f"MODEL_CONFIG is {project.model_config}: {error}", CPU_HINT)
            ]
        return [not_applicable(CHECK_GPU, "this host has no NVIDIA GPU or driver", CPU_HINT)]
    release = RELEASES.get(project.ngc_release)
    if release is None:
        return [passed(CHECK_GPU, ", ".join(gpu.name for gpu in gpus))]
    return [f for gpu in dict.fromkeys(gpus) for f in _gpu_findings(project, release, gpu)]


def _gpu_findings(project: Project, release: Release, gpu: Gpu) -> list[Finding]:
    capability = version_numbers(gpu.compute_capability)
    branch = version_numbers(gpu.driver)[:1]
    if capability < release.oldest_compute_capability:
        needed = ".".join(map(str, release.oldest_compute_capability))
        return [
            problem(
                CHECK_GPU,
                f"{gpu.name} has compute capability {gpu.compute_capability}, NGC "
                f"{project.ngc_release} needs {needed}",
                "use NGC_RELEASE=25.07, the last with CUDA 12, or another GPU",
            )
        ]
    if branch < (release.oldest_driver_branch,):
        return [
            problem(
                CHECK_GPU,
                f"driver {gpu.driver} is older than branch {release.oldest_driver_branch}, which "
                f"CUDA {release.cuda_major} of NGC {project.ngc_release} needs",
                "update the driver, or NGC_RELEASE=25.07 for drivers from 525",
            )
        ]
    if version_numbers(gpu.driver) < version_numbers(release.bundled_driver):
        return [
            warning(
                CHECK_GPU,
                f"driver {gpu.driver} is older than {release.bundled_driver}, which NGC "
                f"{project.ngc_release} was made with: it runs by CUDA's minor-version "
                "compatibility",
                "nothing, unless kernels fail to compile at load: then update the driver",
            )
        ]
    return [passed(CHECK_GPU, f"{gpu.name}, driver {gpu.driver}")]


def check_toolkit(project: Project) -> list[Finding]:
    """Whether Docker can hand a GPU to a container."""
    if project.model_config == "cpu":
        return [not_applicable(CHECK_TOOLKIT, "MODEL_CONFIG is cpu")]
    code, runtimes = ask("docker", "info", "--format", "{{json .Runtimes}}")
    if code != 0:
        return [not_applicable(CHECK_TOOLKIT, "Docker does not answer")]
    _, printed = ask("nvidia-ctk", "--version")
    version = version_numbers(printed) if re.search(r"version", printed) else ()
    if not version and "nvidia" not in runtimes:
        missing = "Docker has no nvidia runtime and nvidia-ctk is not installed"
        if project.needs_gpu:
            fix = "install the NVIDIA Container Toolkit, then: nvidia-ctk runtime configure"
            return [problem(CHECK_TOOLKIT, missing, fix)]
        return [not_applicable(CHECK_TOOLKIT, missing, CPU_HINT)]
    if version and version < OLDEST_SAFE_TOOLKIT:
        return [
            warning(
                CHECK_TOOLKIT,
                f"version {'.'.join(map(str, version))} has CVE-2025-23266 (container escape)",
                "update to 1.17.8 or newer",
            )
        ]
    return []
