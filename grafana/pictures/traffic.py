"""Requests as a service sees them: photographs of many sizes, some images that are broken."""

from __future__ import annotations

import base64
import io
import random
import struct
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import requests
from PIL import Image
from skimage import data

WIDTHS_PX = (320, 640, 640, 960, 1280, 1920)
BAD_SHARE = 0.15
REFUSED_SHARE = 0.01
WORKERS = 24


def photographs() -> list[str]:
    """JPEG files as base64 text, every photograph in every width."""
    pictures = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()]
    return [_jpeg(Image.fromarray(each), width) for each in pictures for width in WIDTHS_PX]


def _jpeg(image: Image.Image, width_px: int) -> str:
    height_px = round(image.height * width_px / image.width)
    buffer = io.BytesIO()
    image.resize((width_px, height_px)).save(buffer, "JPEG", quality=87)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _broken(photograph: str, dice: random.Random) -> str:
    half = base64.b64decode(photograph)[:-2000]
    header = b"IHDR" + struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    size = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    kinds = (
        base64.b64encode(half).decode("ascii"),
        photograph[:1000] + "*" + photograph[1000:],
        base64.b64encode(b"%PDF-1.7 not an image at all").decode("ascii"),
        "",
        base64.b64encode(b"\x89PNG\r\n\x1a\n" + size).decode("ascii"),
    )
    return dice.choices(kinds, weights=(5, 4, 3, 1, 1))[0]


class Traffic:
    """Poisson arrivals at `rate(seconds since start)` per second while the context is open."""

    def __init__(self, infer_url: str, rate: Callable[[float], float], seed: int = 1) -> None:
        self.infer_url = infer_url
        self.rate = rate
        self.statuses: dict[int, int] = {}
        self._dice = random.Random(seed)
        self._photographs = photographs()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        started_s = time.monotonic()
        with ThreadPoolExecutor(WORKERS) as pool:
            while not self._stopping.is_set():
                pool.submit(self._send, self._body())
                rate = self.rate(time.monotonic() - started_s)
                time.sleep(self._dice.expovariate(rate))

    def _body(self) -> dict[str, object]:
        count = self._dice.choices((1, 2, 4, 8), weights=(80, 10, 7, 3))[0]
        images = [self._dice.choice(self._photographs) for _ in range(count)]
        if self._dice.random() < BAD_SHARE:
            images[0] = _broken(images[0], self._dice)
        tensor = {"name": "RAW_IMAGE", "datatype": "BYTES", "shape": [count, 1], "data": images}
        is_refused = self._dice.random() < REFUSED_SHARE
        return {"inputs": [tensor], "parameters": {"top_k": -1 if is_refused else 3}}

    def _send(self, body: dict[str, object]) -> None:
        try:
            status = requests.post(self.infer_url, json=body, timeout=30).status_code
        except requests.RequestException:
            status = 0
        self.statuses[status] = self.statuses.get(status, 0) + 1
