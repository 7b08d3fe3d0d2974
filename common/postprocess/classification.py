"""Logits → ranked predictions: softmax, merge by group, threshold, top-k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.errors import InvalidModelOutput
from common.postprocess.labels import Group


@dataclass(frozen=True)
class Prediction:
    """One line of an answer: a class, or a group whose members are added up (class_id None)."""

    class_id: int | None
    group: Group | None
    probability: float


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities float64 (C,) of finite logits (C,); shifted by the maximum, so no overflow.

    Raises InvalidModelOutput for NaN or infinity.
    """
    values = logits.astype(np.float64)
    if not np.isfinite(values).all():
        raise InvalidModelOutput("the network answered NaN or infinity")
    exponentials = np.exp(values - values.max())
    probabilities: np.ndarray = exponentials / exponentials.sum()
    return probabilities


def rank(
    probabilities: np.ndarray, top_k: int, threshold: float, groups: Sequence[Group] = ()
) -> list[Prediction]:
    """The ``top_k`` likeliest entries of at least ``threshold``; ties: lowest class id first.

    With groups, a group's classes become one entry, which stands at its lowest class id.
    """
    merged = probabilities
    group_at: dict[int, Group] = {}
    if groups:
        merged = probabilities.copy()
        for group in groups:
            members = list(group.class_ids)
            total = probabilities[members].sum()
            merged[members] = -1.0
            merged[members[0]] = total
            group_at[members[0]] = group
    best = _largest(merged, min(top_k, len(merged)))
    return [
        Prediction(None if int(i) in group_at else int(i), group_at.get(int(i)), float(merged[i]))
        for i in best
        if merged[i] >= max(threshold, 0.0)
    ]


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Indices of the ``count`` largest values, largest first, equal ones by index."""
    if count < len(values):
        smallest_kept = np.partition(values, len(values) - count)[len(values) - count]
        candidates = np.flatnonzero(values >= smallest_kept)
    else:
        candidates = np.arange(len(values))
    return candidates[np.argsort(-values[candidates], kind="stable")][:count]
