"""Recipes, layouts, scaled decoding, limits and the batch, against torchvision and Pillow."""

from __future__ import annotations

import io
import resource
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_cases.case import encoded, reference, scene
from image_cases.size import png_header_only
from PIL import Image
from torchvision.models import ResNet50_Weights
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

from common.parameters import parse_preprocess
from common.preprocess import preprocessor as module
from common.preprocess.base64 import file_bytes
from common.preprocess.preprocessor import Preprocessor
from common.preprocess.resize import check_resizer

UINT8 = {"data_type": "TYPE_UINT8", "dims": ["224", "224", "3"]}
FP32 = {"data_type": "TYPE_FP32", "dims": ["3", "224", "224"]}


def build(output=UINT8, **parameters: str) -> Preprocessor:
    recipe = {"resize_size": "232", "crop_size": "224", "threads": "2"}
    return Preprocessor(parse_preprocess(recipe | parameters, output))


def prepared(stage: Preprocessor, image: Image.Image, format_name: str = "PNG", **options):
    batch, (report,) = stage([encoded(image, format_name, **options)])
    assert report.error is None, report.error
    return batch[0]


@settings(deadline=None, max_examples=80)
@given(
    st.integers(1, 900),
    st.integers(1, 900),
    st.sampled_from([("256", "224"), ("232", "224"), ("224", "224"), ("250", "199")]),
)
def test_any_size_equals_torchvision_s_preset(width: int, height: int, recipe) -> None:
    if max(width, height) * int(recipe[0]) // min(width, height) > 20_000:
        width, height = max(width, 20), max(height, 20)
    resize_size, crop_size = recipe
    dims = {"data_type": "TYPE_UINT8", "dims": [crop_size, crop_size, "3"]}
    stage = build(dims, resize_size=resize_size, crop_size=crop_size)
    image = scene(width, height)
    difference = np.abs(
        prepared(stage, image).astype(int) - reference(image, int(resize_size), int(crop_size))
    )
    assert difference.max() <= 2
    assert difference.mean() <= 0.2


def test_float_output_equals_torchvision_s_tensor() -> None:
    preset = ResNet50_Weights.IMAGENET1K_V2.transforms()
    image = scene(640, 427)
    stage = build(FP32, mean="0.485,0.456,0.406", std="0.229,0.224,0.225")
    difference = np.abs(prepared(stage, image) - preset(image).numpy())
    one_level = 1 / 255 / 0.224
    assert difference.max() <= 2 * one_level
    assert difference.mean() <= 0.2 * one_level


def test_flat_red_normalises_to_the_published_numbers() -> None:
    stage = build(FP32, mean="0.485,0.456,0.406", std="0.229,0.224,0.225")
    channels = prepared(stage, Image.new("RGB", (50, 70), (255, 0, 0)))
    for channel, value in zip(channels, (2.2489, -2.0357, -1.8044), strict=True):
        assert np.abs(channel - value).max() < 1e-4


@pytest.mark.parametrize(("width", "height"), [(300, 200), (200, 300), (7, 500), (224, 224)])
def test_letterbox_keeps_the_whole_picture_and_centres_it(width: int, height: int) -> None:
    stage = build(resize_mode="letterbox", resize_size="224", background="114,114,114")
    image = scene(width, height)
    size = [max(1, 224 * height // max(width, height)), max(1, 224 * width // max(width, height))]
    small = F.resize(image, size, InterpolationMode.BILINEAR, antialias=True)
    left, top = (224 - small.width) // 2, (224 - small.height) // 2
    expected = Image.new("RGB", (224, 224), (114, 114, 114))
    expected.paste(small, (left, top))
    difference = np.abs(prepared(stage, image).astype(int) - np.asarray(expected))
    assert difference.max() <= 2


@pytest.mark.parametrize("size", [(1920, 1080), (4000, 3000), (3001, 2003), (6000, 1500)])
@pytest.mark.parametrize("subsampling", [0, 2])
def test_scaled_jpeg_decoding_stays_close_to_the_full_one(size, subsampling: int) -> None:
    rng = np.random.default_rng(4)
    small = rng.integers(0, 256, (size[1] // 24, size[0] // 24, 3), np.uint8)
    image = Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)
    data = encoded(image, "JPEG", quality=90, subsampling=subsampling)
    (pixels,), (report,) = build(jpeg_scale_gap="4")([data])
    assert report.error is None
    with Image.open(io.BytesIO(data)) as full:
        difference = np.abs(pixels.astype(int) - reference(full.convert("RGB")))
    assert difference.max() <= 6
    assert difference.mean() <= 0.3


def test_limits_are_in_force_before_decoding() -> None:
    stage = build(max_pixels="10000", max_bytes="2000")
    just_fits, one_more = scene(100, 100, seed=1), scene(101, 100)
    (_, (small,)), (_, (pixels,)) = (
        stage([encoded(image.quantize(4), "PNG")]) for image in (just_fits, one_more)
    )
    assert small.error is None
    assert pixels.error is not None
    assert pixels.error.status == "IMAGE_TOO_LARGE: 101x100 is 10100 pixels; at most 10000"
    _, (size,) = stage([b"\xff\xd8" + bytes(1999)])
    assert size.error is not None
    assert size.error.code == "IMAGE_TOO_LARGE"


@pytest.mark.parametrize("extra", [0, 1, 2, 3, 4])
def test_the_byte_limit_counts_decoded_bytes_exactly(extra: int) -> None:
    import base64

    data = encoded(scene(), "BMP") + bytes(extra)
    text = base64.encodebytes(data)
    assert file_bytes(text, len(data)) == data
    with pytest.raises(Exception, match="larger than"):
        file_bytes(text, len(data) - 1)


def test_only_configured_formats_are_accepted() -> None:
    stage = build(formats="JPEG,PNG")
    _, reports = stage([encoded(scene(), name) for name in ("JPEG", "PNG", "GIF", "BMP")])
    assert [r.error.code if r.error else "" for r in reports] == [
        *("", ""),
        *("UNSUPPORTED_FORMAT", "UNSUPPORTED_FORMAT"),
    ]


def test_a_batch_keeps_order_and_bad_neighbours_change_nothing() -> None:
    stage = build()
    elements = [encoded(scene(seed=i), "JPEG") if i % 3 else b"!!" for i in range(20)]
    batch, reports = stage(elements)
    for row, report, element in zip(batch, reports, elements, strict=True):
        (alone,), (alone_report,) = stage([element])
        assert (row == alone).all()
        assert str(report.error) == str(alone_report.error)


def test_a_failed_image_leaves_zeros_whatever_memory_held_before() -> None:
    stage = build()
    row = stage.rows(1)[0]
    for element in (b"!!", encoded(scene(), "JPEG")[:300]):
        row[...] = 255
        assert stage.prepare_one(element, row).error is not None
        assert not row.any()


def test_an_unexpected_fault_is_one_image_s_internal_error(monkeypatch, caplog) -> None:
    stage = build()
    real = module.prepare

    def failing(data, config):
        if data.startswith(b"GIF"):
            raise RuntimeError("/secret/path")
        return real(data, config)

    monkeypatch.setattr(module, "prepare", failing)
    _, reports = stage([encoded(scene(), "GIF"), encoded(scene(), "PNG")])
    assert reports[0].error is not None
    assert reports[0].error.status == "INTERNAL: internal error; see the server log"
    assert reports[1].error is None
    assert "/secret/path" in caplog.text


def test_the_resizer_check_notices_garbled_pixels(monkeypatch) -> None:
    check_resizer()
    from common.preprocess import resize

    def garbled(source, box, size, horizontal_first=True):
        return source.resize(size)

    monkeypatch.setattr(resize, "resize_window", garbled)
    with pytest.raises(Exception, match=r"cykooz-resizer.*known answer off"):
        check_resizer()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb", png_header_only(30_000, 30_000)),
        ("thin", encoded(Image.new("RGB", (5000, 1)), "PNG")),
        ("tall", encoded(Image.new("RGB", (1, 65_000)), "PNG")),
        ("largest", encoded(Image.new("RGB", (8192, 8192)), "PNG", compress_level=1)),
        (
            "many frames",
            encoded(
                Image.new("P", (64, 64)),
                "GIF",
                save_all=True,
                append_images=[Image.new("P", (64, 64), i % 9) for i in range(2000)],
            ),
        ),
    ],
)
def test_time_and_memory_are_bounded(name: str, data: bytes) -> None:
    stage = build()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    stage([data])
    # Generous for a busy machine; the plain way takes tens of seconds and gigabytes.
    assert time.perf_counter() - started < 8
    # 64 Mpx at 4 bytes, once decoded and once as RGB, is the most that any input may take.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 700 * 1024
