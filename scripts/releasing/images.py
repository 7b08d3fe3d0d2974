"""Pictures to compare and to smoke-test with: the user's, or views of bundled photographs."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageOps

from client.sources import expand
from engine import EnvironmentProblem

PROJECT_ROOT = Path(__file__).resolve().parents[2]
# The photograph of the README, and those that two ordinary packages bring along.
_OWN = PROJECT_ROOT / "docs" / "pictures" / "cat.jpg"
_PACKAGED = (
    ("skimage", "data/coffee.png"),
    ("skimage", "data/rocket.jpg"),
    ("skimage", "data/astronaut.png"),
    ("sklearn", "datasets/images/flower.jpg"),
    ("sklearn", "datasets/images/china.jpg"),
)
_LONGEST_PX = 640
_JPEG_QUALITY = 90


def load(inputs: list[str]) -> list[bytes]:
    """Encoded pictures of files, folders or patterns; bundled ones where none are named."""
    if not inputs:
        return [view for photograph in _photographs() for view in _views(photograph)]
    pictures = []
    for source in expand(inputs):
        try:
            pictures.append(source.read())
        except Exception as error:
            raise EnvironmentProblem(f"--images {source.name}: {error}") from None
    return pictures


def _photographs() -> list[Path]:
    found = [_OWN]
    for package, file in _PACKAGED:
        # Only found, not imported: that alone would take a second.
        spec = find_spec(package)
        path = Path(spec.origin).parent / file if spec and spec.origin else None
        if path is not None and path.is_file():
            found.append(path)
    return found


def _views(path: Path) -> list[bytes]:
    """The whole picture and the mirror image of its middle: two different ones to a network."""
    with Image.open(path) as picture:
        whole = picture.convert("RGB")
    whole.thumbnail((_LONGEST_PX, _LONGEST_PX))
    width, height = whole.size
    middle = whole.crop((width // 5, height // 5, width * 4 // 5, height * 4 // 5))
    return [_jpeg(view) for view in (whole, ImageOps.mirror(middle))]


def _jpeg(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return buffer.getvalue()
