"""The checkout under examination and the settings it will be started with."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SETTING = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$")
_TIMEOUT_S = 20


@dataclass(frozen=True)
class Project:
    """Settings as Compose takes them: .env.example's defaults, then .env, then the environment.

    ``chosen`` holds the names that .env or the environment set.
    """

    root: Path
    settings: Mapping[str, str]
    chosen: frozenset[str]

    @classmethod
    def load(cls, root: Path, environ: Mapping[str, str]) -> Project:
        """Read a checkout's settings; a missing .env.example or .env counts as empty."""
        defaults = read_settings(root / ".env.example")
        own = read_settings(root / ".env")
        own |= {name: environ[name] for name in {*defaults, "COMPOSE_FILE"} & environ.keys()}
        return cls(root, {**defaults, **own}, frozenset(own))

    @property
    def repository(self) -> Path:
        """The model repository."""
        return self.root / "model_repository"

    @property
    def model_config(self) -> str:
        """What will be served: tensorrt, onnx or cpu; compose.cpu.yml means cpu."""
        if "compose.cpu.yml" in self.settings.get("COMPOSE_FILE", ""):
            return "cpu"
        return self.settings.get("MODEL_CONFIG", "tensorrt")

    @property
    def needs_gpu(self) -> bool:
        """Whether somebody chose a configuration that cannot do without a GPU."""
        return self.model_config != "cpu" and "MODEL_CONFIG" in self.chosen

    @property
    def ngc_release(self) -> str:
        """The NGC release, as in 26.05."""
        return self.settings.get("NGC_RELEASE", "")


def read_settings(path: Path) -> dict[str, str]:
    """NAME=value lines of an env file; comments and quotes removed."""
    if not path.is_file():
        return {}
    settings = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _SETTING.match(line)
        if match:
            value = re.sub(r"\s+#.*$", "", match[2])
            settings[match[1]] = value.strip("\"'")
    return settings


def ask(*command: str) -> tuple[int, str]:
    """Exit code and output of a program; 127 where it does not exist, 124 after 20 s."""
    if shutil.which(command[0]) is None:
        return 127, f"{command[0]} is not installed"
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {_TIMEOUT_S} s"
    except OSError as error:
        return 126, str(error)
    return done.returncode, done.stdout.strip()


def docker_answers() -> bool:
    """Whether a Docker engine can be reached from here."""
    return ask("docker", "version", "--format", "{{.Server.Version}}")[0] == 0


def version_numbers(text: str) -> tuple[int, ...]:
    """The first dotted number in a text, as in (2, 26, 1) for "v2.26.1-4"; empty without one."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
