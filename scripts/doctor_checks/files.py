"""Secrets and the model repository: present, and readable or writable by the containers' uid."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from doctor_checks.finding import Finding, not_applicable, problem
from doctor_checks.project import Project, docker_answers

CHECK_SECRETS = "secrets"
CHECK_PERMISSIONS = "repository permissions"
MAKE_SECRETS = "make secrets"
# What the entrypoint of the triton service insists on.
ADMIN_KEY_MIN_CHARS = 32
# The image's user; file secrets keep their mode in the container, whatever Compose says.
GRAFANA_UID = 472


def check_secrets(project: Project) -> list[Finding]:
    """Secret files of the stack, as the containers will see them."""
    folder = project.root / "secrets"
    if not folder.exists() and not docker_answers():
        reason = "no Docker answers here, and embedded mode needs none"
        return [not_applicable(CHECK_SECRETS, reason, f"before docker compose up: {MAKE_SECRETS}")]
    uid, gid = _bundle_ids(project)
    faults = [
        *_secret_faults(folder / "triton_admin_key", uid, gid, ADMIN_KEY_MIN_CHARS),
        *_secret_faults(folder / "grafana_admin_password", GRAFANA_UID, 0, 8),
    ]
    return [problem(CHECK_SECRETS, cause, fix) for cause, fix in faults]


def _secret_faults(path: Path, uid: int, gid: int, min_chars: int) -> Iterator[tuple[str, str]]:
    label = f"secrets/{path.name}"
    if path.is_dir():
        yield (
            f"{label} is a folder, which Docker made because the file was missing",
            f"docker compose down, rmdir {label}, {MAKE_SECRETS}",
        )
    elif not path.is_file():
        yield f"{label} is missing", MAKE_SECRETS
    elif not _may(path, uid, gid, "r"):
        mode = stat.S_IMODE(path.stat().st_mode)
        yield (
            f"{label} has mode {mode:04o}: uid {uid} in the container cannot read it",
            f"{MAKE_SECRETS} (sets 0444; the folder's 0700 keeps other users of this host out)",
        )
    elif path.stat().st_size < min_chars:
        yield (
            f"{label} has fewer than {min_chars} characters",
            f"rm {label}, {MAKE_SECRETS}, docker compose up -d --force-recreate",
        )


def check_permissions(project: Project) -> list[Finding]:
    """Files that Triton cannot read, and version folders that the export job cannot write."""
    uid, gid = _bundle_ids(project)
    if not docker_answers():
        # Embedded mode runs as whoever starts it.
        uid, gid = os.getuid(), os.getgid()
    unreadable, unwritable = [], []
    for path in sorted([project.root / "common", *project.repository.rglob("*")]):
        if "__pycache__" in path.parts or path.is_symlink():
            continue
        if not _may(path, uid, gid, "rx" if path.is_dir() else "r"):
            unreadable.append(str(path.relative_to(project.root)))
        is_version = path.is_dir() and path.name.isdigit() and path.parent.name.endswith(
            "_inference"
        )  # fmt: skip
        if is_version and not _may(path, uid, gid, "wx"):
            unwritable.append(str(path.relative_to(project.root)))
    fix = "BUNDLE_UID and BUNDLE_GID in .env to the owner of this checkout (id -u, id -g)"
    findings = []
    if unreadable:
        cause = f"uid {uid} cannot read {_some(unreadable)}"
        findings.append(problem(CHECK_PERMISSIONS, cause, f"chmod -R a+rX, or set {fix}"))
    if unwritable:
        cause = f"uid {uid} cannot write {_some(unwritable)}, where the export job publishes"
        findings.append(problem(CHECK_PERMISSIONS, cause, f"set {fix}"))
    return findings


def _bundle_ids(project: Project) -> tuple[int, int]:
    values = [project.settings.get(name, "1000") for name in ("BUNDLE_UID", "BUNDLE_GID")]
    uid, gid = [int(value) if value.isdigit() else 1000 for value in values]
    return uid, gid


def _may(path: Path, uid: int, gid: int, access: str) -> bool:
    # os.access asks for this process's user; the containers run as another, without capabilities.
    status = path.stat()
    shift = 6 if status.st_uid == uid else 3 if status.st_gid == gid else 0
    granted = stat.S_IMODE(status.st_mode) >> shift
    needed = sum({"r": 4, "w": 2, "x": 1}[letter] for letter in access)
    return granted & needed == needed


def _some(names: list[str], shown: int = 3) -> str:
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")
