"""What a plan was built from and on, and whether that is still true: manifest.json's ``plan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import manifest
from engine.host import Gpu, Trtexec, driver_branch
from engine.profile import EngineProfile

REBUILD = "rebuild it on this host: make export-trt"

# Compared fields, with what a reader calls them.
_FIELDS = {
    "tensorrt": "TensorRT",
    "gpu": "GPU",
    "compute_capability": "compute capability",
    "driver": "driver",
    "source_onnx_sha256": "model.onnx",
    "shapes": "shape profile",
    "flags": "flags",
}
_SHOWN_SHA_CHARS = 12


def describe(
    profile: EngineProfile, tool: Trtexec, gpu: Gpu, source_sha256: str, flags: Sequence[str]
) -> dict[str, Any]:
    """The part of a fingerprint that decides whether a plan may be served on a GPU."""
    return {
        "tensorrt": tool.version,
        "gpu": gpu.name,
        "compute_capability": gpu.compute_capability,
        "driver": gpu.driver,
        "source_onnx_sha256": source_sha256,
        "shapes": profile.to_json(),
        "flags": list(flags),
    }


def differences(plan: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """One text per field in which a plan's fingerprint is not what this host needs."""
    return [
        f"{label}: the plan was built for {_shown(plan.get(key))}, here it is "
        f"{_shown(expected[key])}"
        for key, label in _FIELDS.items()
        if _comparable(key, plan.get(key)) != _comparable(key, expected[key])
    ]


def artefact_problems(folder: Path) -> list[str]:
    """What is wrong with a version folder's files and manifest, whatever the host."""
    try:
        document = manifest.read(folder)
    except manifest.ManifestError as error:
        return [str(error)]
    if not document.get("plan"):
        return [f"no engine has been built for {folder.parent.name} version {folder.name}"]
    return manifest.file_problems(document, folder)


def host_problems(
    folder: Path, profile: EngineProfile, tool: Trtexec, gpus: Sequence[Gpu], flags: Sequence[str]
) -> list[str]:
    """Why the plan of a version folder must not be served on these GPUs; empty when it may."""
    problems = artefact_problems(folder)
    if problems:
        return problems
    document = manifest.read(folder)
    for gpu in dict.fromkeys(gpus):
        expected = describe(profile, tool, gpu, document["onnx"]["sha256"], flags)
        problems += differences(document["plan"], expected)
    return list(dict.fromkeys(problems))


def _comparable(key: str, value: Any) -> Any:
    return driver_branch(value) if key == "driver" and isinstance(value, str) else value


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value if len(value) != 64 else value[:_SHOWN_SHA_CHARS] + "…"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{name} batch " + "/".join(str(shape[0]) for shape in batches.values())
            + " of " + "x".join(str(size) for size in next(iter(batches.values()))[1:])
            for name, batches in value.items()
        )  # fmt: skip
    return "nothing" if value is None else str(value)
