"""How long one image takes to prepare: by size and format, alone and in a batch, and against whom.

The bundle's path takes base64 text and gives uint8 pixels; alone it runs in the calling thread as
the others do, and once more through the thread pool, as served. Times are wall time per image;
ratios are formed round by round (timing.ratios).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks import instance, pictures, pipelines, rivals, tutorial
from benchmarks.instance import PIPELINE, Instances, images_per_s
from benchmarks.pictures import PictureSet
from benchmarks.timing import Figure, interleaved, ratios
from common.preprocess.preprocessor import Preprocessor, available_cores

OURS, POOLED = "ours", "ours_pooled"
OPENCV, TORCHVISION, BARE = "opencv", "torchvision", "bare_decode"
BATCH_IMAGES = 24
# Rounds of a size are chosen so that each takes about as long; PNG and WebP decode more slowly.
ROUNDS = {"in500": 40, "hd1080": 15, "mp12": 9}
_ROUNDS_OF_SLOW_FORMATS = {"in500": 20, "hd1080": 10}
# The pool's cost is that of waking a thread, whatever the picture: one kind shows it.
_SHOWN_POOLED = ("in500", "jpeg")

Prepare = Callable[[bytes], object]
Say = Callable[[str], None]


def run(scale: float = 1.0, say: Say = lambda _: None) -> dict[str, Any]:
    """Everything; ``scale`` multiplies the number of rounds."""
    stage = pipelines.preprocessor(PIPELINE, threads=1)
    recipe = pipelines.recipe(PIPELINE)
    others: dict[str, Prepare] = {
        OPENCV: tutorial.opencv(recipe),
        TORCHVISION: rivals.torchvision(recipe),
    }
    single = []
    for size, format_name in _kinds():
        say(f"one image: {size} {format_name}")
        kind = pictures.picture_set(size, format_name)
        usual = ROUNDS if format_name == "jpeg" else _ROUNDS_OF_SLOW_FORMATS
        rounds = max(3, round(usual[size] * scale))
        bare = {BARE: rivals.bare_jpeg_decode} if format_name == "jpeg" else {}
        single.append(_single(stage, kind, others | bare, rounds))
    stage.close()
    say("batch")
    batch = _batch(others, max(3, round(12 * scale)))
    say("threads against instances")
    scaling = _scaling(max(3, round(5 * scale)), seconds=max(0.5, scale))
    return {"single": single, "batch": batch, "scaling": scaling}


def _kinds() -> list[tuple[str, str]]:
    jpegs = [(size, "jpeg") for size in pictures.SIZES_PX]
    others = [(size, name) for name in ("png", "webp") for size in ("in500", "hd1080")]
    return jpegs + others


def _single(
    stage: Preprocessor, kind: PictureSet, others: dict[str, Prepare], rounds: int
) -> dict[str, Any]:
    texts = [base64.b64encode(data) for data in kind.files]
    row = stage.rows(1)[0]
    reports: list[Any] = []

    def ours() -> None:
        reports.extend([stage.prepare_one(text, row) for text in texts])

    def pooled() -> None:
        for text in texts:
            stage([text])

    def other(prepare: Prepare) -> Callable[[], object]:
        return lambda: [prepare(data) for data in kind.files]

    calls: dict[str, Callable[[], object]] = {OURS: ours}
    if (kind.size, kind.format_name) == _SHOWN_POOLED:
        calls[POOLED] = pooled
    calls |= {name: other(prepare) for name, prepare in others.items()}
    seconds = interleaved(calls, rounds, len(kind.files))
    failed = [report.error for report in reports if report.error]
    if failed:
        raise RuntimeError(f"a photograph was refused: {failed[0]}")
    return {
        "size": kind.size,
        "format": kind.format_name,
        "pixels": list(pictures.SIZES_PX[kind.size]),
        "mean_kB": round(kind.mean_bytes / 1e3),
        "rounds": rounds,
        "ms": {name: _milliseconds(values) for name, values in seconds.items()},
        "steps_ms": {
            step: Figure.of([getattr(r, f"{step}_s") * 1e3 for r in reports]).to_json()
            for step in ("decode", "resize")
        },
        **_compared(seconds),
    }


def _compared(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """How many times faster than the others, and how many times a bare decode."""
    ours = seconds[OURS]
    faster = {
        name: ratios(values, ours).to_json()
        for name, values in seconds.items()
        if name not in (OURS, POOLED, BARE)
    }
    if BARE not in seconds:
        return {"times_faster_than": faster}
    return {"times_faster_than": faster, "over_bare": ratios(ours, seconds[BARE]).to_json()}


def _batch(others: dict[str, Prepare], rounds: int) -> dict[str, Any]:
    """One request of many images, on every core; the others get a thread pool of that size too."""
    cores = available_cores()
    files = pictures.picture_set("in500").files
    batch = [files[i % len(files)] for i in range(BATCH_IMAGES)]
    texts = [base64.b64encode(data) for data in batch]
    stage = pipelines.preprocessor(PIPELINE, threads=cores)
    with ThreadPoolExecutor(cores) as pool:

        def other(prepare: Prepare) -> Callable[[], object]:
            return lambda: list(pool.map(prepare, batch))

        calls: dict[str, Callable[[], object]] = {OURS: lambda: stage(texts)}
        calls |= {name: other(prepare) for name, prepare in others.items()}
        seconds = interleaved(calls, rounds, BATCH_IMAGES)
    stage.close()
    return {
        "images": BATCH_IMAGES,
        "threads": cores,
        "size": "in500",
        "ms": {name: _milliseconds(values) for name, values in seconds.items()},
        **_compared(seconds),
    }


def _scaling(rounds: int, seconds: float) -> dict[str, Any]:
    """Images per second of one thread, of one thread per core, and of one process per core."""
    cores = available_cores()
    texts = instance.texts()
    one, many = (pipelines.preprocessor(PIPELINE, threads=n) for n in (1, cores))
    rates: dict[str, list[float]] = {"one_thread": [], "threads": [], "instances": []}
    with Instances(cores, seconds) as instances:
        for _ in range(rounds):
            rates["one_thread"].append(images_per_s(one, texts, seconds))
            # Many at once: the last ones, which keep only one thread busy, must not count for much.
            rates["threads"].append(images_per_s(many, texts * 8, seconds))
            rates["instances"].append(instances.rate())
    one.close()
    many.close()
    return {
        "cores": cores,
        "size": "in500",
        "images_per_s": {name: Figure.of(values).to_json() for name, values in rates.items()},
        "threads_over_one": ratios(rates["threads"], rates["one_thread"]).to_json(),
        "threads_over_instances": ratios(rates["threads"], rates["instances"]).to_json(),
    }


def _milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    return Figure.of([value * 1e3 for value in seconds]).to_json()
