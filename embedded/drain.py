"""Stopping without losing a request: refuse what is new, let what is under way finish."""

from __future__ import annotations

import re
import time
from pathlib import Path

import requests

# The environment variable that tells the preprocess stage which file to look for.
DRAIN_FILE_VARIABLE = "TRITON_DRAIN_FILE"
# Above the longest wait that the inference queue allows: what takes longer hangs.
DRAIN_TIMEOUT_S = 12.0
_POLL_INTERVAL_S = 0.05
_QUIET_POLLS = 3
_PAGE_TIMEOUT_S = 2.0
_PENDING = re.compile(r"^nv_inference_pending_request_count\{[^}]*\} (\d+)", re.MULTILINE)


def drain(drain_file: Path, metrics_url: str, timeout_s: float = DRAIN_TIMEOUT_S) -> bool:
    """Let the server refuse new requests with 503, and wait until none is queued.

    Triton itself waits for those that are being worked on. False where some are queued still after
    ``timeout_s``, or where the server does not tell.
    """
    drain_file.touch()
    deadline = time.monotonic() + timeout_s
    quiet = 0
    while time.monotonic() < deadline:
        try:
            with requests.Session() as session:
                session.trust_env = False
                page = session.get(metrics_url, timeout=_PAGE_TIMEOUT_S).text
        except requests.RequestException:
            return False
        waiting = sum(int(count) for count in _PENDING.findall(page))
        quiet = quiet + 1 if waiting == 0 else 0
        if quiet == _QUIET_POLLS:
            return True
        time.sleep(_POLL_INTERVAL_S)
    return False
