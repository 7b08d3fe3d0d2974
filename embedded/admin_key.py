"""The key of the model-repository API, which loads and unloads models."""

from __future__ import annotations

import secrets
from pathlib import Path

from embedded.errors import PreflightError

ADMIN_KEY_HEADER = "triton-admin-key"
_KEY_BYTES = 24


def project_admin_key(project: Path) -> str:
    """Return the key of secrets/triton_admin_key, or a random one where there is no such file."""
    file = project / "secrets" / "triton_admin_key"
    try:
        key = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return secrets.token_urlsafe(_KEY_BYTES)
    except OSError as error:
        raise PreflightError(f"cannot read {file}: {error.strerror}") from None
    if not key:
        raise PreflightError(f"{file} is empty: remove it, then run `make secrets`")
    return key
