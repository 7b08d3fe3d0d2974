"""Six photographs that ordinary packages bring along, so that nothing has to be downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from demonstration.steps import DemoError

_FILES = {
    "cat": ("skimage", "data/chelsea.png"),
    "coffee": ("skimage", "data/coffee.png"),
    "rocket": ("skimage", "data/rocket.jpg"),
    "astronaut": ("skimage", "data/astronaut.png"),
    "flower": ("sklearn", "datasets/images/flower.jpg"),
    "temple": ("sklearn", "datasets/images/china.jpg"),
}


@dataclass(frozen=True)
class Photograph:
    """What it shows, and its encoded bytes."""

    subject: str
    data: bytes


def load() -> list[Photograph]:
    """All six, in a fixed order. DemoError where a package is missing."""
    return [Photograph(subject, _path(*where).read_bytes()) for subject, where in _FILES.items()]


def _path(package: str, file: str) -> Path:
    # Only found, not imported: that alone would take a second.
    spec = find_spec(package)
    path = Path(spec.origin).parent / file if spec and spec.origin else None
    if path is None or not path.is_file():
        raise DemoError(f"{package} is missing, which holds photographs: pip install -e '.[demo]'")
    return path
