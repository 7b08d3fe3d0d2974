"""Varied real crops: sizes, qualities, chroma subsampling, formats, orientations.

Every crop is a file. What it shows is judged from the file, since that is all a server sees.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from PIL import Image

# The photographs (colour, at least 300 px) that two ordinary packages bring along.
_PHOTOGRAPHS = {
    "skimage.data": (
        *("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png"),
        *("hubble_deep_field.jpg", "ihc.png", "retina.jpg", "color.png"),
    ),
    "sklearn.datasets.images": ("china.jpg", "flower.jpg"),
}
# Name → (shortest side in px: least, most). A crop is enlarged to reach the large ones.
SETS_PX = {"native": (256, 420), "hd1080": (1080, 1080), "mp12": (3000, 3000)}
SHARP = "sharp"
_ORIENTATION_TAG = 0x0112


@dataclass(frozen=True)
class Crop:
    """One file of a set, and how it was made."""

    set_name: str
    kind: str
    data: bytes


def crops(count: int, seed: int = 0) -> Iterator[Crop]:
    """``count`` crops over all sets; the same ones for the same seed.

    Half of them are at the photographs' own resolution; the large ones are enlarged crops, and the
    sharp ones put many small crops side by side, so that every pixel counts when it is reduced.
    """
    rng = np.random.default_rng(seed)
    sources = _sources()
    shares = {"native": 0.55, "hd1080": 0.2, SHARP: 0.15, "mp12": 0.1}
    for name, share in shares.items():
        for number in range(round(count * share)):
            source = sources[number % len(sources)]
            picture = _sharp(sources, rng) if name == SHARP else _crop(source, name, rng)
            yield _encoded(name, picture, rng)


def _sources() -> list[Image.Image]:
    pictures = []
    for package, names in _PHOTOGRAPHS.items():
        for name in names:
            path = files(package).joinpath(name)
            if path.is_file():
                with path.open("rb") as stream, Image.open(stream) as picture:
                    pictures.append(picture.convert("RGB"))
    return [picture for picture in pictures if min(picture.size) >= 300]


def _crop(source: Image.Image, name: str, rng: np.random.Generator) -> Image.Image:
    """A window of 60 to 100 % of each side, then brought to the set's size."""
    width, height = (round(side * rng.uniform(0.6, 1)) for side in source.size)
    left, top = rng.integers(source.width - width + 1), rng.integers(source.height - height + 1)
    window = source.crop((left, top, left + width, top + height))
    least, most = SETS_PX[name]
    shortest = int(rng.integers(least, most + 1))
    if name == "native" and min(window.size) >= least:
        return window
    scale = shortest / min(window.size)
    size = (round(window.width * scale), round(window.height * scale))
    return window.resize(size, Image.Resampling.BICUBIC)


def _sharp(sources: list[Image.Image], rng: np.random.Generator) -> Image.Image:
    """1920 × 1080 of unscaled windows: detail at the pixel's own scale everywhere."""
    tile = 360
    picture = Image.new("RGB", (1920, 1080))
    main = int(rng.integers(len(sources)))
    for left in range(0, picture.width, tile):
        for top in range(0, picture.height, tile):
            source = sources[main]
            x = int(rng.integers(max(1, source.width - tile)))
            y = int(rng.integers(max(1, source.height - tile)))
            picture.paste(source.crop((x, y, x + tile, y + tile)), (left, top))
    return picture


def _encoded(name: str, picture: Image.Image, rng: np.random.Generator) -> Crop:
    """Mostly JPEG of random quality and subsampling; a tenth each PNG and WebP; some turned."""
    picture.info.clear()
    drawn = rng.uniform()
    options: dict[str, Any]
    if drawn < 0.1 and name != "mp12":
        options, kind = {"format": "PNG", "compress_level": 1}, "png"
    elif drawn < 0.2 and name != "mp12":
        quality = int(rng.integers(60, 100))
        options, kind = {"format": "WEBP", "quality": quality, "method": 1}, f"webp q{quality}"
    else:
        quality, subsampling = int(rng.integers(50, 100)), int(rng.integers(3))
        options = {"format": "JPEG", "quality": quality, "subsampling": subsampling}
        # Cameras do not write progressive files of that size, and they take seconds each.
        options["progressive"] = bool(rng.integers(2)) and name != "mp12"
        kind = f"jpeg q{quality} {('4:4:4', '4:2:2', '4:2:0')[subsampling]}"
        if rng.uniform() < 0.25:
            orientation = int(rng.integers(2, 9))
            exif = Image.Exif()
            exif[_ORIENTATION_TAG] = orientation
            options["exif"] = exif
            kind += f" turned {orientation}"
    stream = io.BytesIO()
    picture.save(stream, **options)
    return Crop(name, kind, stream.getvalue())
