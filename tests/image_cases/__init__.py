"""Inputs that broke image classifiers in public, each with its right answer.

The ids are those of the collected reports (docs/inputs.md lists them). Expected pixels come from
Pillow, torchvision or arithmetic, never from the code under test.
"""

from __future__ import annotations

from image_cases import colour, containers, orientation, size, text
from image_cases.case import Case

ALL_CASES: tuple[Case, ...] = (
    *orientation.cases(),
    *colour.cases(),
    *containers.cases(),
    *size.cases(),
    *text.cases(),
)

__all__ = ["ALL_CASES", "Case"]
