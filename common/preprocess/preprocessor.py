"""A batch of wire elements → the network's input, one status per image."""

from __future__ import annotations

import logging
import os
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from common.errors import ImageError, InternalError
from common.parameters import PreprocessConfig
from common.preprocess.base64 import file_bytes
from common.preprocess.image import prepare
from common.preprocess.resize import check_resizer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImageReport:
    """What one image took: seconds per step, size of its file, pixels; ``error`` if it failed."""

    error: ImageError | None = None
    input_bytes: int = 0
    pixels: int = 0
    decode_s: float = 0.0
    resize_s: float = 0.0
    normalise_s: float = 0.0


Done = Callable[[np.ndarray, list[ImageReport]], None]


class Preprocessor:
    """Turns wire elements into PREPROCESSED_IMAGE; immutable once built, safe to share by threads.

    Output: uint8 (N, crop, crop, 3), or float32 (N, 3, crop, crop) = (x / 255 - mean) / std where
    the recipe has mean and std. A failed image leaves zeros and its error; it never raises.
    """

    def __init__(self, config: PreprocessConfig) -> None:
        check_resizer()
        self.config = config
        self.threads = config.threads or available_cores()
        self._pool = ThreadPoolExecutor(self.threads, "preprocess")
        crop = config.crop_size
        self._table = _levels_to_floats(config)
        self._shape = (crop, crop, 3) if self._table is None else (3, crop, crop)
        self._dtype = np.uint8 if self._table is None else np.float32

    def __call__(self, elements: Sequence[bytes]) -> tuple[np.ndarray, list[ImageReport]]:
        """One row and one report per element, in order; waits for all of them."""
        finished: queue.SimpleQueue[tuple[np.ndarray, list[ImageReport]]] = queue.SimpleQueue()
        self.submit(elements, lambda batch, reports: finished.put((batch, reports)))
        return finished.get()

    def submit(self, elements: Sequence[bytes], done: Done) -> None:
        """Prepare the elements in the pool; the thread that ends the last one calls ``done``.

        Requests share the threads image by image, so a slow picture holds up its own request only.
        """
        batch = self.rows(len(elements))
        reports = [ImageReport()] * len(elements)
        unfinished = iter(range(len(elements) - 1, -1, -1))

        def work(position: int) -> None:
            reports[position] = self.prepare_one(elements[position], batch[position])
            # next() on a range is one step of the interpreter: exactly one thread draws the 0.
            if next(unfinished) == 0:
                done(batch, reports)

        for position in range(len(elements)):
            self._pool.submit(work, position)

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=True)

    def rows(self, count: int) -> np.ndarray:
        """Room for ``count`` images, not yet filled."""
        return np.empty((count, *self._shape), self._dtype)

    def prepare_one(self, element: bytes, row: np.ndarray) -> ImageReport:
        """Fill one of ``rows`` in the calling thread."""
        started = time.perf_counter()
        try:
            data = file_bytes(element, self.config.max_bytes)
            text_s = time.perf_counter() - started
            decoded = prepare(data, self.config)
        except Exception as error:
            row[...] = 0
            if isinstance(error, ImageError):
                return ImageReport(error, len(element), decode_s=time.perf_counter() - started)
            log.exception("preprocessing one image failed")
            return ImageReport(InternalError(), len(element))
        filling = time.perf_counter()
        self._fill(row, decoded.pixels)
        return ImageReport(
            None,
            len(data),
            decoded.width_px * decoded.height_px,
            text_s + decoded.decode_s,
            decoded.resize_s,
            time.perf_counter() - filling,
        )

    def _fill(self, row: np.ndarray, pixels: np.ndarray) -> None:
        if self._table is None:
            row[:] = pixels
            return
        for channel in range(3):
            np.take(self._table[channel], pixels[..., channel], out=row[channel])


def _levels_to_floats(config: PreprocessConfig) -> np.ndarray | None:
    """float32 (3, 256): what each level becomes, in torchvision's order of operations."""
    if config.mean is None or config.std is None:
        return None
    levels = np.arange(256, dtype=np.float32) / np.float32(255)
    mean = np.array(config.mean, np.float32)[:, None]
    std = np.array(config.std, np.float32)[:, None]
    return (levels[None, :] - mean) / std


def available_cores() -> int:
    """Cores this process may use: its CPU affinity, cut to the container's CPU quota."""
    cores = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    return cores
