"""What the rules are generated from: the service level objectives and the expected pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from common.metric_families import LATENCY_BUCKETS_S, STAGES

MODEL_SUFFIXES = ("preprocess", "inference", "postprocess", "ensemble")
# Below it the fastest burn rate, 14.4 times the budget, would be more than all requests.
MINIMUM_OBJECTIVE = 0.94
KEYS = (
    "SLO_AVAILABILITY",
    "SLO_LATENCY_SECONDS",
    "SLO_LATENCY_RATIO",
    "SLO_MIN_REQUESTS",
    "EXPECTED_PIPELINES",
    "RUNBOOK_URL",
)


class SettingsError(ValueError):
    """A knob is missing or wrong; the message names it and what is allowed."""


@dataclass(frozen=True)
class Settings:
    """Objectives as ratios 0..1, the latency bound in seconds, requests as a count.

    ``instances`` maps a Python model's name to the processes its config.pbtxt asks for.
    """

    availability: float
    latency_seconds: float
    latency_ratio: float
    min_requests: int
    pipelines: tuple[str, ...]
    runbook_url: str
    instances: Mapping[str, int]

    @property
    def availability_budget(self) -> float:
        return round(1 - self.availability, 9)

    @property
    def latency_budget(self) -> float:
        return round(1 - self.latency_ratio, 9)


def read_settings(env_files: list[Path], model_repository: Path) -> Settings:
    """Later files win, as with ``docker compose --env-file``. Raises SettingsError."""
    env: dict[str, str] = {}
    for file in env_files:
        env.update(_read_env(file))
    missing = [key for key in KEYS if not env.get(key)]
    if missing:
        raise SettingsError(f"{', '.join(missing)}: not set; .env.example shows the defaults")
    pipelines = tuple(name.strip() for name in env["EXPECTED_PIPELINES"].split(","))
    return Settings(
        availability=_ratio(env, "SLO_AVAILABILITY"),
        latency_seconds=_latency_bound(env),
        latency_ratio=_ratio(env, "SLO_LATENCY_RATIO"),
        min_requests=int(_number(env, "SLO_MIN_REQUESTS")),
        pipelines=pipelines,
        runbook_url=env["RUNBOOK_URL"],
        instances={
            f"{pipeline}_{stage}": _instances(model_repository / f"{pipeline}_{stage}")
            for pipeline in pipelines
            for stage in STAGES
        },
    )


def _read_env(file: Path) -> dict[str, str]:
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def _number(env: Mapping[str, str], key: str) -> float:
    try:
        return float(env[key])
    except ValueError:
        raise SettingsError(f"{key}={env[key]!r}: want a number") from None


def _ratio(env: Mapping[str, str], key: str) -> float:
    value = _number(env, key)
    if not MINIMUM_OBJECTIVE <= value < 1:
        raise SettingsError(
            f"{key}={env[key]!r}: want a ratio from {MINIMUM_OBJECTIVE} to below 1, such as 0.995"
        )
    return value


def _latency_bound(env: Mapping[str, str]) -> float:
    value = _number(env, "SLO_LATENCY_SECONDS")
    if value not in LATENCY_BUCKETS_S:
        allowed = ", ".join(f"{bound:g}" for bound in LATENCY_BUCKETS_S)
        raise SettingsError(f"SLO_LATENCY_SECONDS={value:g}: want a histogram bound: {allowed}")
    return value


def _instances(model_folder: Path) -> int:
    file = model_folder / "config.pbtxt"
    if not file.exists():
        raise SettingsError(
            f"EXPECTED_PIPELINES names {model_folder.name}, which has no {file.name}"
        )
    config = text_format.Parse(file.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    return sum(max(group.count, 1) for group in config.instance_group) or 1
