"""Each configuration file on its own, and the files under configs/ against config.pbtxt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from doctor_checks.finding import Finding, problem, warning
from doctor_checks.model_configs import ConfigFile, read_configs, type_name
from doctor_checks.project import Project

CHECK_FILE = "config file"
CHECK_ALTERNATES = "alternates agree"


def check_files(project: Project) -> list[Finding]:
    """Each file on its own: name, tensors, batch sizes, version folder."""
    findings = []
    for file in read_configs(project).files:
        findings += [problem(CHECK_FILE, f"{file.label}: {c}", fix) for c, fix in _faults(file)]
        if file.config.backend == "python" and file.config.HasField("dynamic_batching"):
            findings.append(
                warning(
                    CHECK_FILE,
                    f"{file.label}: dynamic_batching on a Python step adds its delay to every "
                    "lone request",
                    "remove it: the step has its own thread pool",
                )
            )
    for folder in sorted(project.repository.glob("*/0*")):
        if folder.is_dir() and folder.name.isdigit():
            findings.append(
                warning(
                    CHECK_FILE,
                    f"{folder.relative_to(project.repository)}: Triton ignores version numbers "
                    "that begin with 0",
                    "rename the folder, as in 1",
                )
            )
    return findings


def _faults(file: ConfigFile) -> Iterator[tuple[str, str]]:
    config = file.config
    if config.name and config.name != file.model:
        yield f"name is {config.name!r}", f"the folder's name is {file.model}: write that"
    if not config.backend and not config.platform:
        yield "no backend", "write backend: (python, onnxruntime, tensorrt) or platform: ensemble"
    for tensor in [*config.input, *config.output]:
        if not tensor.name or not tensor.data_type:
            yield f"tensor {tensor.name!r} lacks a name or data_type", "give it both"
        if not tensor.dims or any(size == 0 or size < -1 for size in tensor.dims):
            yield (
                f"{tensor.name} has dims {list(tensor.dims)}",
                "give sizes above 0, or -1 for any; the batch axis is not among them",
            )
    for size in config.dynamic_batching.preferred_batch_size:
        if size > config.max_batch_size:
            yield (
                f"preferred_batch_size {size} is above max_batch_size {config.max_batch_size}",
                "Triton refuses to load this: lower the preferred size or raise the maximum",
            )
    yield from _profile_faults(config)


def _profile_faults(config: Any) -> Iterator[tuple[str, str]]:
    named = {key: value.string_value for key, value in config.parameters.items()}
    opt_batch = named.get("opt_batch_size", "1")
    if not opt_batch.isdigit() or not 1 <= int(opt_batch) <= max(1, config.max_batch_size):
        yield (
            f"opt_batch_size is {opt_batch!r}",
            f"a whole number from 1 to max_batch_size ({config.max_batch_size})",
        )
    for accelerator in config.optimization.execution_accelerators.gpu_execution_accelerator:
        shapes = accelerator.parameters.get("trt_profile_max_shapes", "")
        for spec in filter(None, shapes.split(",")):
            batch = spec.rpartition(":")[2].split("x")[0]
            if batch.isdigit() and int(batch) < config.max_batch_size:
                yield (
                    f"trt_profile_max_shapes {spec} ends below max_batch_size "
                    f"{config.max_batch_size}",
                    "a full batch would be refused: raise the profile or lower max_batch_size",
                )


def check_alternates(project: Project) -> list[Finding]:
    """Files under configs/ whose inputs, outputs or batch differ from config.pbtxt's."""
    configs = read_configs(project)
    findings = []
    for file in configs.files:
        base = configs.base(file.model)
        if not file.variant or base is None:
            continue
        for field in ("input", "output"):
            here, there = _tensors(getattr(file.config, field)), _tensors(getattr(base, field))
            if here != there:
                findings.append(_disagreement(file, f"{field} {_shown(here)}", f"{_shown(there)}"))
        if file.config.max_batch_size != base.max_batch_size:
            findings.append(
                _disagreement(
                    file,
                    f"max_batch_size {file.config.max_batch_size}",
                    str(base.max_batch_size),
                )
            )
    return findings


def _tensors(tensors: Any) -> list[tuple[str, str, tuple[int, ...]]]:
    return sorted((t.name, type_name(t.data_type), tuple(t.dims)) for t in tensors)


def _shown(tensors: list[tuple[str, str, tuple[int, ...]]]) -> str:
    return ", ".join(f"{name} {kind} {list(dims)}" for name, kind, dims in tensors)


def _disagreement(file: ConfigFile, here: str, there: str) -> Finding:
    return problem(
        CHECK_ALTERNATES,
        f"{file.label} has {here}, config.pbtxt has {there}",
        "make them equal: MODEL_CONFIG must not change what clients see",
    )
