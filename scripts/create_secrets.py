"""Create the stack's secrets under ./secrets: 32 random bytes each, never overwriting one.

The files are mode 0444 in a folder of mode 0700: no other user of this host gets past the folder,
and each container reads the ones mounted into it under whatever uid it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent
NAMES = ("triton_admin_key", "grafana_admin_password")
SECRET_BYTES = 32
FOLDER_MODE = 0o700
FILE_MODE = 0o444

EXAMPLE = """example:
  python scripts/create_secrets.py
  python scripts/create_secrets.py --rotate triton_admin_key
  docker compose up -d --force-recreate triton             # reads the new key
"""


def write_secret(path: Path) -> None:
    """Write a fresh secret to `path` by rename, so that no reader ever sees half of one."""
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(SECRET_BYTES) + "\n")
        os.fchmod(file.fileno(), FILE_MODE)
    staged.replace(path)


def create(folder: Path, rotate: Sequence[str]) -> dict[str, str]:
    """Bring `folder` up to date; returns what happened ("created", "kept", "rotated") by name."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    folder.chmod(FOLDER_MODE)
    done = {}
    for name in NAMES:
        path = folder / name
        if path.is_file() and path.stat().st_size and name not in rotate:
            path.chmod(FILE_MODE)
            done[name] = "kept"
            continue
        done[name] = "rotated" if path.exists() else "created"
        write_secret(path)
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: every secret exists; 2: the folder cannot be written."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=PROJECT_ROOT / "secrets")
    parser.add_argument(
        "--rotate", choices=NAMES, action="append", default=[], help="replace this secret"
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    options = parser.parse_args(arguments)
    try:
        done = create(options.folder, options.rotate)
    except OSError as error:
        print(
            f"create-secrets: cannot write {error.filename or options.folder}: {error.strerror}; "
            "a folder there that Docker made in place of a missing file must be removed first",
            file=sys.stderr,
        )
        return 2
    if options.json:
        print(json.dumps(done))
    else:
        for name, outcome in done.items():
            print(f"{options.folder / name}: {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
