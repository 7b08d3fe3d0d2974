"""TurboJPEG beside Pillow: the same pixels, and the same judgement of damaged files."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_cases.case import encoded, scene
from PIL import Image

from common.errors import ImageError
from common.parameters import parse_preprocess
from common.preprocess import jpeg
from common.preprocess.image import prepare

CONFIG = parse_preprocess(
    {"resize_size": "232", "crop_size": "224", "max_pixels": "1000000"},
    {"data_type": "TYPE_UINT8", "dims": ["224", "224", "3"]},
)
ENCODINGS = [
    {"quality": 90, "subsampling": 2},
    {"quality": 75, "subsampling": 1},
    {"quality": 100, "subsampling": 0},
    {"quality": 60, "progressive": True, "restart_marker_blocks": 3},
    {"quality": 90, "keep_rgb": True},
]


def pixels_of(image: Image.Image) -> np.ndarray:
    return np.asarray(jpeg.to_rgb(image) if image.mode == jpeg.RGBX else image.convert("RGB"))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 500),
    st.integers(1, 500),
    st.sampled_from(ENCODINGS),
    st.integers(1, 300),
    st.integers(1, 300),
)
def test_an_ordinary_jpeg_has_pillow_s_pixels_at_every_reduction(
    width: int, height: int, encoding, full_width: int, full_height: int
) -> None:
    data = encoded(scene(width, height), "JPEG", **encoding)
    gap = CONFIG.jpeg_scale_gap
    decoded = jpeg.decode(data, jpeg.header(data), (full_width, full_height), CONFIG)
    with Image.open(io.BytesIO(data)) as pillow:
        pillow.draft("RGB", (full_width * gap, full_height * gap))
        expected = np.asarray(pillow)
    assert decoded.mode == jpeg.RGBX
    assert (pixels_of(decoded) == expected).all()


def test_grey_and_cmyk_are_left_to_pillow() -> None:
    for mode in ("L", "CMYK"):
        data = encoded(scene().convert(mode), "JPEG")
        decoded = jpeg.decode(data, jpeg.header(data), (232, 232), CONFIG)
        assert decoded.mode == ("L" if mode == "L" else "RGB")


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.sampled_from(["L", "RGB", "CMYK"]),
    st.sampled_from([None, *range(10)]),
    st.booleans(),
)
def test_the_header_says_what_pillow_says(
    width: int, height: int, mode: str, orientation: int | None, progressive: bool
) -> None:
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    picture = scene(width, height).convert(mode)
    data = encoded(picture, "JPEG", progressive=progressive, exif=exif.tobytes())
    expected = orientation if orientation in range(1, 9) else 1
    assert jpeg.header(data) == jpeg.Header((width, height), expected, mode == "RGB")


def test_a_second_header_cannot_ask_for_more_memory_than_the_first() -> None:
    data = encoded(scene(64, 64), "JPEG")
    start = data.index(b"\xff\xc0")
    length = int.from_bytes(data[start + 2 : start + 4], "big") + 2
    header = bytearray(data[start : start + length])
    header[5:9] = b"\xff\xff\xff\xff"
    for bomb in (
        data[:start] + header + data[start:],
        data[: start + length] + header + data[start + length :],
    ):
        with pytest.raises(ImageError):
            prepare(bomb, CONFIG)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_damage_is_answered_as_without_turbojpeg(encoding, monkeypatch) -> None:
    whole = encoded(scene(90, 70), "JPEG", **encoding)
    rng = random.Random(7)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(2, len(damaged))] = rng.randrange(256)
        data = bytes(damaged[: rng.choice([len(damaged), rng.randrange(20, len(damaged))])])
        fast = answer(data)
        with monkeypatch.context() as patched:
            patched.setattr(jpeg, "_read_header", lambda *_: None)
            patched.setattr(jpeg, "_decode_rgbx", lambda *_: None)
            assert fast == answer(data)


def answer(data: bytes) -> str | bytes:
    try:
        return prepare(data, CONFIG).pixels.tobytes()
    except ImageError as error:
        return error.code
