"""The candidate against the live version, on the same pixels: how different would answers be?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from releasing import ReleaseRefused
from releasing.server import Server, texts
from scaffold.classifier import Classifier

# Images per request: a few MB of pixels each way.
_BATCH = 8
# What a server's logits may differ from ONNX Runtime's on the CPU: FP16 engines reach 0.9999.
COSINE_MIN = 0.999


@dataclass(frozen=True)
class Limits:
    """When a candidate is too different. Retrained weights of one task agree on 0.9 and more."""

    min_agreement: float = 0.8
    max_distance: float = 0.5


@dataclass(frozen=True)
class Comparison:
    """``agreement``: share of pictures with the same best class.

    ``distance``: mean of 1 - cosine between the centred logits, 0 the same, 1 unrelated; it does
    not depend on their scale.
    """

    images: int
    agreement: float
    distance: float

    def to_json(self) -> dict[str, Any]:
        """As it stands in the release record."""
        return {name: round(value, 4) for name, value in asdict(self).items()}

    def summary(self) -> str:
        """The figures in one line."""
        return (
            f"same best class on {self.agreement:.0%} of {self.images} pictures, "
            f"logit distance {self.distance:.3f}"
        )

    def excess(self, limits: Limits) -> str | None:
        """What makes the candidate too different, or None."""
        if self.agreement < limits.min_agreement:
            return (
                f"it agrees with the live version on {self.agreement:.0%} of {self.images} "
                f"pictures, at least {limits.min_agreement:.0%} are needed"
            )
        if self.distance > limits.max_distance:
            return (
                f"its logits are {self.distance:.3f} away from the live version's, at most "
                f"{limits.max_distance:g} are allowed"
            )
        return None


def preprocessed(
    server: Server, model: str, pictures: Sequence[bytes]
) -> tuple[list[bytes], np.ndarray]:
    """The pictures that the live preprocess model takes, and their network inputs."""
    good: list[bytes] = []
    rows = []
    for start in range(0, len(pictures), _BATCH):
        part = pictures[start : start + _BATCH]
        answer = server.infer(model, {"RAW_IMAGE": texts(part)})
        taken = answer["IMAGE_STATUS"].reshape(-1) == b""
        rows.append(answer["PREPROCESSED_IMAGE"][taken])
        good += [picture for picture, is_good in zip(part, taken) if is_good]
    if not good:
        raise ReleaseRefused("the server can decode none of the pictures: name others by --images")
    return good, np.concatenate(rows)


def served_logits(
    server: Server, model: str, classifier: Classifier, pixels: np.ndarray, version: int
) -> np.ndarray:
    """Logits (n, classes) of one version on the server."""
    return _batched(
        pixels,
        lambda part: server.infer(model, {classifier.input_name: part}, version)[
            classifier.output_name
        ],
    )


def file_logits(file: Path, classifier: Classifier, pixels: np.ndarray) -> np.ndarray:
    """Logits (n, classes) of an ONNX file in ONNX Runtime on this CPU."""
    options = onnxruntime.SessionOptions()
    # 3 = errors only: warnings about the graph would look like ours.
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
    logits = _batched(
        pixels,
        lambda part: session.run([classifier.output_name], {classifier.input_name: part})[0],
    )
    if not np.isfinite(logits).all():
        raise ReleaseRefused("its logits are not finite for an ordinary picture: export it again")
    return logits


def compare(live: np.ndarray, candidate: np.ndarray) -> Comparison:
    """Old logits against new ones, each (n, classes)."""
    agreement = np.mean(live.argmax(axis=1) == candidate.argmax(axis=1))
    return Comparison(len(live), float(agreement), float(1 - _cosines(live, candidate).mean()))


def require_same(file: np.ndarray, served: np.ndarray, version: int) -> None:
    """What the server loaded must be what was checked; ReleaseRefused."""
    worst = float(_cosines(file, served).min())
    # Not `<`: figures that are not finite must fail too.
    if not worst >= COSINE_MIN:
        raise ReleaseRefused(
            f"the server's version {version} answers otherwise than its ONNX file "
            f"(cosine {worst:.4f}, needed {COSINE_MIN})"
        )


def _cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    a, b = (x.astype(np.float64) - x.mean(axis=1, keepdims=True) for x in (one, other))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sum(a * b, axis=1) / lengths)


def _batched(pixels: np.ndarray, run: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    parts = [pixels[start : start + _BATCH] for start in range(0, len(pixels), _BATCH)]
    return np.concatenate([run(part) for part in parts])
