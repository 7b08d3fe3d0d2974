"""Trying again: exponential backoff with jitter, bounded, and never in silence."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from client.errors import ServerUnreachable, Transient

T = TypeVar("T")

DEFAULT_RETRIES = 5
FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 8.0

OnRetry = Callable[[str], None]


@dataclass(frozen=True)
class Retrying:
    """How often, and whom to tell; ``sleep`` takes seconds."""

    retries: int = DEFAULT_RETRIES
    on_retry: OnRetry = lambda _: None
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, attempt: Callable[[], T]) -> T:
        """What ``attempt`` returns; ServerUnreachable when it stays Transient.

        Asking twice is harmless: classifying a picture changes nothing on the server.
        """
        for retry in range(self.retries + 1):
            try:
                return attempt()
            except Transient as error:
                if retry == self.retries:
                    tries = f"{retry + 1} tries" if retry else "1 try"
                    raise ServerUnreachable(f"{error}; given up after {tries}") from None
                wait = wait_s(retry)
                self.on_retry(f"{error}; retry {retry + 1} of {self.retries} in {wait:.1f} s")
                self.sleep(wait)
        raise AssertionError("unreachable")


def wait_s(retry: int) -> float:
    """Seconds before retry number ``retry`` (from 0): doubling, capped, half of it random.

    The random half keeps many clients of one restarted server from coming back in step.
    """
    longest = min(FIRST_WAIT_S * 2**retry, LONGEST_WAIT_S)
    return longest * random.uniform(0.5, 1.0)
