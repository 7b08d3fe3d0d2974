"""How much may wait: what comes on top is refused at once, with 503, and nothing piles up."""

from __future__ import annotations

import os
import threading


class Admission:
    """Counts what waits or is worked on; what comes on top of a limit is refused.

    So is everything as soon as the file exists that ``TRITON_DRAIN_FILE`` names: the server is
    about to stop, and connections that are kept open would else bring requests to the last.
    """

    def __init__(self, max_images: int, max_bytes: int) -> None:
        self._max_images, self._max_bytes = max_images, max_bytes
        self._drain_file = os.environ.get("TRITON_DRAIN_FILE", "")
        self._lock = threading.Lock()
        self._images = self._bytes = 0

    def acquire(self, images: int, size_bytes: int) -> str:
        """Why so much more may not come in, or nothing; a request that comes alone always may."""
        if self._drain_file and os.path.exists(self._drain_file):
            return "shutting down; try another server, or again later"
        with self._lock:
            if self._images and self._images + images > self._max_images:
                return f"overloaded: {self._max_images} images are waiting; try again later"
            if self._images and self._bytes + size_bytes > self._max_bytes:
                return f"overloaded: {self._max_bytes} bytes are waiting; try again later"
            self._images += images
            self._bytes += size_bytes
        return ""

    def release(self, images: int, size_bytes: int) -> None:
        with self._lock:
            self._images -= images
            self._bytes -= size_bytes
