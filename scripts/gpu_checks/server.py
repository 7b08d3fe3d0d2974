"""The running server: its pages, its metrics and its inference model's logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import requests
from tritonclient import http as triton_http
from tritonclient.utils import InferenceServerException

from doctor_checks.project import Project
from engine import EnvironmentProblem
from engine.target import Target

TIMEOUT_S = 30.0
SERVE = "docker compose up -d --wait, with MODEL_CONFIG=tensorrt"


@dataclass(frozen=True)
class Stack:
    """A running server and the checkout that it serves."""

    project: Project
    target: Target
    server: str
    metrics: str

    @property
    def model(self) -> str:
        """The inference model's name."""
        return f"{self.target.pipeline}_inference"


def get(url: str) -> requests.Response:
    """GET a page; EnvironmentProblem where nobody answers well."""
    try:
        answer = requests.get(url, timeout=TIMEOUT_S)
        answer.raise_for_status()
    except requests.RequestException as error:
        raise EnvironmentProblem(f"{url} does not answer ({error}): {SERVE}") from error
    return answer


def metric_lines(stack: Stack, name: str) -> list[str]:
    """The samples of one metric, as Triton prints them."""
    lines = get(f"{stack.metrics}/metrics").text.splitlines()
    return [line for line in lines if line.split("{")[0].split(" ")[0] == name]


def served_logits(stack: Stack, batch: np.ndarray) -> np.ndarray:
    """Logits (n, classes) of the running inference model; raises EnvironmentProblem."""
    profile = stack.target.profile
    tensor = triton_http.InferInput(
        profile.input_name, list(batch.shape), profile.input_type.removeprefix("TYPE_")
    )
    tensor.set_data_from_numpy(batch)
    client = triton_http.InferenceServerClient(
        stack.server.removeprefix("http://"), network_timeout=TIMEOUT_S
    )
    try:
        answer = client.infer(stack.model, [tensor]).as_numpy(profile.output_name)
    except (InferenceServerException, OSError) as error:
        raise EnvironmentProblem(f"{stack.model} does not answer: {error}") from error
    finally:
        client.close()
    if answer is None:
        raise EnvironmentProblem(f"{stack.model} answers without {profile.output_name}")
    return np.asarray(answer)
