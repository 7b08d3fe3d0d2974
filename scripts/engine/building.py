"""From model.onnx to a published plan: FP16 graph, build, size check, one run, publication."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import manifest
from engine import EngineError, EnvironmentProblem, fingerprint, half, parity, trtexec
from engine.host import Gpu, Trtexec
from engine.target import Target

# A plan holds the graph's weights once, plus kernels. FP32 weights would be twice the FP16 graph.
PLAN_TO_ONNX_MAX = 1.5
PLAN_TO_ONNX_MIN = 0.5
KERNELS_BYTES = 8 * 1024 * 1024

Report = Callable[[str], None]


def build_plan(
    target: Target, tool: Trtexec, gpu: Gpu, staging: Path, report: Report
) -> dict[str, Any]:
    """Build, verify and publish a plan; its fingerprint. EngineError leaves the old plan alone."""
    document = manifest.read(target.folder)
    source = target.folder / manifest.MODEL_NAME
    _require_source(document, source)
    flags = trtexec.recipe_flags(tool)

    batch = parity.fixed_input(target.profile)
    reference = parity.onnx_logits(source, target.profile, batch)
    half_onnx = staging / "model.fp16.onnx"
    half.write_half(source, half_onnx)
    half_logits = parity.onnx_logits(half_onnx, target.profile, batch)
    agreement = parity.require_agreement("the FP16 graph", reference, half_logits)
    report(
        f"{target.pipeline}: FP16 graph of {half_onnx.stat().st_size / 1e6:.1f} MB agrees with "
        f"model.onnx (cosine >= {agreement.cosine_min:.6f})"
    )

    plan = staging / manifest.PLAN_NAME
    seconds = _run_trtexec(target, tool, gpu, half_onnx, plan, report=report)
    require_plan_size(plan, half_onnx.stat().st_size)
    plan_logits = _run_plan(target, tool, plan, batch, report)
    agreement = parity.require_agreement("the engine", reference, plan_logits)

    made = {
        **fingerprint.describe(target.profile, tool, gpu, document["onnx"]["sha256"], flags),
        "onnx_sha256": manifest.sha256_of(half_onnx),
        "sha256": manifest.sha256_of(plan),
        "bytes": plan.stat().st_size,
        "build_seconds": round(seconds, 1),
        "parity": agreement.to_json(),
    }
    manifest.write({**document, "plan": made}, staging / manifest.MANIFEST_NAME)
    manifest.publish([plan, staging / manifest.MANIFEST_NAME], target.folder)
    return made


def require_plan_size(plan: Path, half_onnx_bytes: int) -> None:
    """Refuse a plan that holds FP32 weights, or not all of them; raises EngineError."""
    if not plan.is_file():
        raise EngineError("trtexec reported success but wrote no plan: is the disk full?")
    size = plan.stat().st_size
    most = PLAN_TO_ONNX_MAX * half_onnx_bytes + KERNELS_BYTES
    least = PLAN_TO_ONNX_MIN * half_onnx_bytes
    if size > most:
        raise EngineError(
            f"the plan has {size / 1e6:.1f} MB where FP16 needs at most {most / 1e6:.1f} MB: "
            "TensorRT kept FP32 weights; nothing was published"
        )
    if size < least:
        raise EngineError(
            f"the plan has {size / 1e6:.1f} MB where FP16 needs at least {least / 1e6:.1f} MB: "
            "it is cut short; nothing was published"
        )


def _require_source(document: dict[str, Any], source: Path) -> None:
    if not source.is_file() or manifest.sha256_of(source) != document["onnx"]["sha256"]:
        raise EnvironmentProblem(
            f"{source} is missing or differs from its manifest: export it again (make export-onnx)"
        )


def _run_trtexec(
    target: Target, tool: Trtexec, gpu: Gpu, half_onnx: Path, plan: Path, *, report: Report
) -> float:
    # trtexec rewrites its cache in place; a killed build must not leave a torn one behind.
    kept_cache = timing_cache(tool, gpu)
    cache = plan.with_name("timing.cache")
    if kept_cache.is_file():
        shutil.copyfile(kept_cache, cache)
    command = trtexec.build_command(tool, target.profile, half_onnx, plan, cache)
    command += _device(target)
    step = f"{target.pipeline}: building with TensorRT {tool.version} on {gpu.name}"
    seconds = trtexec.run(command, plan.with_name("build.log"), step, report)
    report(f"{target.pipeline}: built in {seconds:.0f} s")
    if cache.is_file():
        _keep(cache, kept_cache, report)
    return seconds


def _run_plan(target: Target, tool: Trtexec, plan: Path, batch: Any, report: Report) -> Any:
    inputs, outputs = plan.with_name("input.bin"), plan.with_name("output.json")
    inputs.write_bytes(batch.tobytes())
    command = trtexec.run_command(
        tool, target.profile, plan, batch=len(batch), inputs=inputs, outputs=outputs
    )
    command += _device(target)
    step = f"{target.pipeline}: running the plan once"
    trtexec.run(command, plan.with_name("run.log"), step, report)
    return parity.plan_logits(outputs, target.profile, len(batch))


def _device(target: Target) -> list[str]:
    return [f"--device={target.build_device}"] if target.build_device else []


def timing_cache(tool: Trtexec, gpu: Gpu) -> Path:
    """Where measured kernel times are kept: a cache fits one TensorRT version and GPU model."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    gpu_name = "".join(c if c.isalnum() else "-" for c in gpu.name)
    return base / "resnet50-triton" / f"{tool.version}-{gpu_name}.timing"


def _keep(cache: Path, place: Path, report: Report) -> None:
    partial = place.with_name(place.name + ".partial")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cache, partial)
        partial.replace(place)
    except OSError as error:
        report(f"the timing cache could not be kept, so a rebuild will take as long: {error}")
