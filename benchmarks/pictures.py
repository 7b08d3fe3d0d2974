"""Real photographs in the sizes and formats that are measured."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageOps

from demonstration import photographs

# Name → (width, height) in pixels: ImageNet's usual size, a full-HD frame, a phone's photograph.
SIZES_PX = {"in500": (500, 375), "hd1080": (1920, 1080), "mp12": (4000, 3000)}
# The usual photograph: quality 90, chroma at half resolution both ways.
JPEG = {"format": "JPEG", "quality": 90, "subsampling": 2}
# Level 6 is zlib's default; "4" is WebP's own default effort.
FORMATS: dict[str, dict[str, Any]] = {
    "jpeg": JPEG,
    "png": {"format": "PNG", "compress_level": 6},
    "webp": {"format": "WEBP", "quality": 90, "method": 4},
}


@dataclass(frozen=True)
class PictureSet:
    """The same photographs as files of one size and format."""

    size: str
    format_name: str
    files: tuple[bytes, ...]

    @property
    def mean_bytes(self) -> int:
        """Size of a file on average."""
        return sum(map(len, self.files)) // len(self.files)


def sources() -> list[Image.Image]:
    """The photographs at their own size, RGB."""
    pictures = []
    for photograph in photographs.load():
        with Image.open(io.BytesIO(photograph.data)) as image:
            pictures.append(image.convert("RGB"))
    return pictures


def picture_set(size: str, format_name: str = "jpeg", count: int = 6) -> PictureSet:
    """``count`` photographs, filled into the size's frame and encoded."""
    files = []
    for source in sources()[:count]:
        framed = ImageOps.fit(source, SIZES_PX[size], Image.Resampling.LANCZOS)
        # Colour profiles and the like would be copied into the file.
        framed.info.clear()
        stream = io.BytesIO()
        framed.save(stream, **FORMATS[format_name])
        files.append(stream.getvalue())
    return PictureSet(size, format_name, tuple(files))
