"""The same question without any library: one line for a shell, and its real answer."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess

import requests

from demonstration.pipelines import PROJECT_ROOT
from demonstration.steps import DemoError, say

PICTURE = "docs/pictures/cat.jpg"
TIMEOUT_S = 30


def command(ensemble: str) -> str:
    """A line to paste into any shell, in the project's folder, while a server runs.

    The base64 text goes through a pipe: as an argument of a program it would be cut off by the
    system's limit for one (128 KiB on Linux).
    """
    return (
        f"""printf '{{"RAW_IMAGE": "%s", "top_k": 3}}' "$(base64 -w0 {PICTURE})" |\n"""
        f"  curl -sS -d @- \\\n"
        f'  "http://127.0.0.1:${{HTTP_PORT:-8000}}/v2/models/{ensemble}/generate"'
    )


def run(ensemble: str, http_port: int) -> str:
    """Execute the line against the server on ``http_port``; the answer's text. DemoError."""
    missing = [tool for tool in ("curl", "base64") if shutil.which(tool) is None]
    if missing:
        say(f"{' and '.join(missing)} is not installed: asking with requests instead")
        return checked(_with_requests(ensemble, http_port))
    # A proxy from the environment has no way to this machine's own address.
    environment = {**os.environ, "HTTP_PORT": str(http_port), "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        ["sh", "-c", command(ensemble)],
        cwd=PROJECT_ROOT,
        env=environment,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise DemoError(f"curl failed: {done.stderr.decode(errors='replace').strip()}", 1)
    return checked(done.stdout.decode(errors="replace"))


def _with_requests(ensemble: str, http_port: int) -> str:
    image = base64.b64encode((PROJECT_ROOT / PICTURE).read_bytes()).decode()
    session = requests.Session()
    session.trust_env = False
    try:
        return session.post(
            f"http://127.0.0.1:{http_port}/v2/models/{ensemble}/generate",
            json={"RAW_IMAGE": image, "top_k": 3},
            timeout=TIMEOUT_S,
        ).text
    except requests.RequestException as error:
        raise DemoError(f"the server did not answer: {error}", 1) from None


def checked(text: str) -> str:
    """``text`` again, if it holds predictions. DemoError."""
    try:
        predictions = json.loads(json.loads(text)["OUTPUT_RESULTS"])["predictions"]
    except (ValueError, KeyError, TypeError):
        predictions = []
    if not predictions:
        raise DemoError(f"generate gave no predictions: {text[:300]}", 1)
    return text
