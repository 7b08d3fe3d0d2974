"""One tiny image through an ensemble: ready means that it answers, not that it says so."""

from __future__ import annotations

import base64
import io
import json
from typing import NoReturn

import requests
from PIL import Image

from embedded.errors import CanaryFailed

# Larger than one JPEG block, so that resize and crop have something to do.
_CANARY_SIZE_PX = (64, 48)
_READY_TIMEOUT_S = 1.0


def canary_jpeg() -> bytes:
    """Return a tiny valid JPEG, made in memory."""
    buffer = io.BytesIO()
    Image.new("RGB", _CANARY_SIZE_PX, (200, 120, 40)).save(buffer, "JPEG")
    return buffer.getvalue()


def is_ready(http_url: str) -> bool:
    """Say whether the server and all its models report that they are ready."""
    with _session() as session:
        try:
            return session.get(f"{http_url}/v2/health/ready", timeout=_READY_TIMEOUT_S).ok
        except requests.RequestException:
            return False


def check_canary(http_url: str, ensemble: str, timeout_s: float) -> None:
    """Raise CanaryFailed unless `ensemble` answers a good image with a strict JSON result."""
    tensor = {
        "name": "RAW_IMAGE",
        "datatype": "BYTES",
        "shape": [1, 1],
        "data": [base64.b64encode(canary_jpeg()).decode("ascii")],
    }
    try:
        with _session() as session:
            url = f"{http_url}/v2/models/{ensemble}/infer"
            answer = session.post(url, json={"inputs": [tensor]}, timeout=timeout_s)
    except requests.RequestException as error:
        reason = "no answer in time" if isinstance(error, requests.Timeout) else str(error)
        raise CanaryFailed(f"{ensemble} does not answer a good image: {reason}") from None
    if answer.status_code != 200:
        raise CanaryFailed(f"{ensemble} answers a good image with {_shorten(answer.text)}")
    try:
        [text] = answer.json()["outputs"][0]["data"]
        result = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, KeyError, IndexError, TypeError):
        raise CanaryFailed(f"{ensemble} answers no strict JSON: {_shorten(answer.text)}") from None
    if not isinstance(result, dict) or "error" in result:
        raise CanaryFailed(f"{ensemble} refuses a good image: {_shorten(text)}")


def _session() -> requests.Session:
    session = requests.Session()
    # A proxy of the environment has no business with the loopback address.
    session.trust_env = False
    return session


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _shorten(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
