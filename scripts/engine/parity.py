"""Do two forms of one network agree? Logits of a fixed input, compared image by image."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from engine import EngineError
from engine.profile import EngineProfile

COSINE_MIN = 0.999
# FP16 moves a logit by about 0.05: two classes this close to each other may change places.
NEAR_TIE_LOGITS = 0.1
IMAGES = 4
_BLOCK_PX = 16
_NUMPY_TYPES = {"TYPE_UINT8": np.uint8, "TYPE_FP16": np.float16, "TYPE_FP32": np.float32}


@dataclass(frozen=True)
class Agreement:
    """How close two sets of logits are; top1_agreement is a share from 0 to 1, near ties agree."""

    images: int
    cosine_min: float
    max_abs_logit_diff: float
    top1_agreement: float

    def to_json(self) -> dict[str, Any]:
        """The figures as they stand in manifest.json under plan.parity."""
        return asdict(self)


def fixed_input(profile: EngineProfile) -> np.ndarray:
    """The same few coarse pictures on every call, (n, *dims) of the input's type, n <= 4.

    UINT8 covers 0..255; floats cover about -2..2, the range of normalised pixels.
    """
    shape = profile.shape(min(IMAGES, profile.max_batch))
    coarse = [shape[0], *(max(3, size // _BLOCK_PX) for size in shape[1:])]
    pixels = np.random.default_rng(20_16).integers(0, 256, coarse).astype(np.float32)
    for axis, size in enumerate(shape):
        pixels = pixels.take(np.arange(size) * pixels.shape[axis] // size, axis=axis)
    if profile.input_type != "TYPE_UINT8":
        pixels = pixels / 64 - 2
    return np.ascontiguousarray(pixels.astype(_NUMPY_TYPES[profile.input_type]))


def onnx_logits(model: Path, profile: EngineProfile, batch: np.ndarray) -> np.ndarray:
    """FP32 logits (n, classes) of an ONNX file in ONNX Runtime on the CPU; raises EngineError."""
    options = onnxruntime.SessionOptions()
    # Errors only: the library warns about casts that it removes itself.
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        return session.run([profile.output_name], {profile.input_name: batch})[0]
    except Exception as error:
        # ONNX Runtime's own exceptions share no base class but Exception.
        reason = " ".join(str(error).split())[:300]
        raise EngineError(f"ONNX Runtime does not run {model.name}: {reason}") from error


def plan_logits(exported: Path, profile: EngineProfile, images: int) -> np.ndarray:
    """Logits from the JSON that ``trtexec --exportOutput`` writes; raises EngineError."""
    try:
        outputs = json.loads(_json_numbers(exported.read_text(encoding="utf-8")))
        values = {output["name"]: output["values"] for output in outputs}[profile.output_name]
        return np.array(values, dtype=np.float32).reshape(images, -1)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(
            f"trtexec exported no output {profile.output_name} for {images} images: {error!r}"
        ) from error


def _json_numbers(text: str) -> str:
    # trtexec prints nan and inf as C++ does; json reads NaN and Infinity.
    text = re.sub(r'(?<![\w"])-?nan(?![\w"])', "NaN", text)
    return re.sub(r'(?<![\w"])inf(?![\w"])', "Infinity", text)


def require_agreement(what: str, reference: np.ndarray, logits: np.ndarray) -> Agreement:
    """Compare logits (n, classes) with the reference's; raises EngineError on a real difference."""
    if reference.shape != logits.shape:
        raise EngineError(f"{what} gives shape {logits.shape}, the reference {reference.shape}")
    if not np.isfinite(logits).all():
        raise EngineError(f"{what} gives NaN or infinite logits: FP16 overflows in this network")
    agreement = _compare(reference.astype(np.float64), logits.astype(np.float64))
    if agreement.cosine_min < COSINE_MIN or agreement.top1_agreement < 1:
        raise EngineError(
            f"{what} differs from the FP32 model: cosine {agreement.cosine_min:.5f} (at least "
            f"{COSINE_MIN}), top-1 equal for {agreement.top1_agreement:.0%} of "
            f"{agreement.images} images, largest logit difference "
            f"{agreement.max_abs_logit_diff:.3f}"
        )
    return agreement


def _compare(reference: np.ndarray, logits: np.ndarray) -> Agreement:
    norms = np.linalg.norm(reference, axis=1) * np.linalg.norm(logits, axis=1)
    cosine = (reference * logits).sum(axis=1) / np.maximum(norms, np.finfo(np.float64).tiny)
    rows = np.arange(len(reference))
    lost = reference.max(axis=1) - reference[rows, logits.argmax(axis=1)]
    return Agreement(
        images=len(reference),
        cosine_min=round(float(cosine.min()), 7),
        max_abs_logit_diff=round(float(np.abs(reference - logits).max()), 5),
        top1_agreement=float((lost <= NEAR_TIE_LOGITS).mean()),
    )
