"""Server flags: read from docker-compose.yml, where they are written once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from embedded.admin_key import ADMIN_KEY_HEADER
from embedded.errors import PreflightError
from embedded.preflight import HOST

# ${NAME}, ${NAME:-default}, ${NAME-default} and $$, as Compose substitutes them.
_VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<kind>:?-)(?P<default>[^}]*))?\})"
)


def compose_flags(compose_file: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the flags of the compose file's `triton` service, without the program's name.

    `environ` fills ${NAME:-default} as Compose does: `:-` also replaces an empty value.
    """
    try:
        services = yaml.safe_load(compose_file.read_text(encoding="utf-8"))["services"]
        command = services["triton"]["command"]
    except OSError as error:
        raise PreflightError(f"cannot read the server flags: {error}") from None
    except (yaml.YAMLError, KeyError, TypeError):
        raise PreflightError(f"{compose_file} has no services.triton.command list") from None
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    return [_substitute(word, environ) for word in words[1:]]


def own_flags(
    *,
    model_repository: Path,
    config_name: str,
    backend_folder: Path,
    cache_folder: Path,
    ports: Mapping[str, int],
    admin_key: str,
    shm_prefix: str,
) -> list[str]:
    """Return the flags that differ from run to run; `ports` by name: http, grpc, metrics."""
    key = f"model-repository:{ADMIN_KEY_HEADER}={admin_key}"
    return [
        f"--model-repository={model_repository}",
        f"--model-config-name={config_name}",
        f"--backend-directory={backend_folder}",
        f"--cache-directory={cache_folder}",
        *(f"--{name}-port={port}" for name, port in ports.items()),
        *(f"--{name}-address={HOST}" for name in ports),
        "--allow-gpu-metrics=false",
        f"--http-restricted-api={key}",
        f"--grpc-restricted-protocol={key}",
        f"--backend-config=python,shm-region-prefix-name={shm_prefix}",
    ]


def override_flags(flags: Sequence[str], own: Sequence[str]) -> list[str]:
    """Return `flags` without those that `own` sets, followed by `own`.

    `--backend-config=python,key=value` counts as one setting per backend and key.
    """
    replaced = {_setting(flag) for flag in own}
    return [flag for flag in flags if _setting(flag) not in replaced] + list(own)


def _setting(flag: str) -> str:
    name, _, value = flag.partition("=")
    return f"{name}={value.partition('=')[0]}" if name == "--backend-config" else name


def _substitute(text: str, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        found = environ.get(match["name"])
        if found is None or (match["kind"] == ":-" and not found):
            return match["default"] or ""
        return found

    return _VARIABLE.sub(value, text)
