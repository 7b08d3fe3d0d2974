"""Built TensorRT engines: do they fit their manifest, NGC_RELEASE and this host?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import manifest
from doctor_checks.finding import Finding, not_applicable, passed, problem
from doctor_checks.project import Project
from doctor_checks.releases import RELEASES
from engine import EngineError, EnvironmentProblem, fingerprint, trtexec
from engine.host import driver_branch, find_trtexec, probe_trtexec, query_gpus
from engine.target import Target, find_targets

CHECK_ENGINE = "TensorRT engine"


def check_engine(project: Project) -> list[Finding]:
    """Every engine against its manifest, its profile, NGC_RELEASE and, where possible, this GPU."""
    try:
        targets = find_targets(project.repository)
    except EnvironmentProblem as error:
        return [problem(CHECK_ENGINE, str(error), "correct configs/tensorrt.pbtxt")]
    return [finding for target in targets for finding in _engine_findings(project, target)]


def _engine_findings(project: Project, target: Target) -> list[Finding]:
    name = f"{target.pipeline} version {target.folder.name}"
    if not (target.folder / manifest.PLAN_NAME).exists() and not _names_plan(target.folder):
        hint = "make export-trt (docker compose up does it)"
        return [not_applicable(CHECK_ENGINE, f"{name}: no engine built yet", hint)]
    faults = fingerprint.artefact_problems(target.folder)
    if not faults:
        plan = manifest.read(target.folder)["plan"]
        faults = [*_release_faults(project, target, plan), *_host_faults(target, plan)]
    if faults:
        return [problem(CHECK_ENGINE, f"{name}: {f}", fingerprint.REBUILD) for f in faults]
    return [passed(CHECK_ENGINE, f"{name}: built on {plan['gpu']}, TensorRT {plan['tensorrt']}")]


def _names_plan(folder: Path) -> bool:
    try:
        return bool(manifest.read(folder).get("plan"))
    except manifest.ManifestError:
        return False


def _release_faults(project: Project, target: Target, plan: dict[str, Any]) -> Iterator[str]:
    if plan["source_onnx_sha256"] != manifest.read(target.folder)["onnx"]["sha256"]:
        yield "built from another model.onnx"
    for name, batches in plan["shapes"].items():
        if batches["max"][0] < target.profile.max_batch:
            yield (
                f"its profile for {name} ends at batch {batches['max'][0]}, max_batch_size is "
                f"{target.profile.max_batch}"
            )
    release = RELEASES.get(project.ngc_release)
    if release and not f"{plan['tensorrt']}.".startswith(f"{release.tensorrt}."):
        yield (
            f"built with TensorRT {plan['tensorrt']}, NGC_RELEASE {project.ngc_release} has "
            f"{release.tensorrt}"
        )


def _host_faults(target: Target, plan: dict[str, Any]) -> list[str]:
    try:
        gpus = target.serving_gpus(query_gpus())
        # trtexec is in the containers; outside them TensorRT's version cannot be asked.
        if find_trtexec():
            tool = probe_trtexec()
            flags = trtexec.recipe_flags(tool)
            return fingerprint.host_problems(target.folder, target.profile, tool, gpus, flags)
    except (EnvironmentProblem, EngineError):
        return []
    return [
        f"built for {plan['gpu']} (driver {plan['driver']}), this host has {gpu.name} (driver "
        f"{gpu.driver})"
        for gpu in gpus
        if (gpu.name, gpu.compute_capability, driver_branch(gpu.driver))
        != (plan["gpu"], plan["compute_capability"], driver_branch(plan["driver"]))
    ]
