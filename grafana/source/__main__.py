"""Writes grafana/dashboards/*.json, or says whether they are up to date."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from grafana.source import DASHBOARDS

FOLDER = Path(__file__).resolve().parent.parent / "dashboards"
EXAMPLE = "example: python -m grafana.source --check"


def render() -> dict[str, str]:
    """File name to JSON text of every dashboard."""
    return {
        f"{page.uid}.json": json.dumps(page.to_json(DASHBOARDS), indent=2, sort_keys=True) + "\n"
        for page in DASHBOARDS
    }


def outdated(folder: Path) -> list[str]:
    """Files in `folder` that differ from the source, are missing, or have no source."""
    wanted = render()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    names = wanted.keys() | present.keys()
    return sorted(name for name in names if wanted.get(name) != present.get(name))


def write(folder: Path) -> None:
    """Bring `folder` in line with the source, removing dashboards that it no longer has."""
    wanted = render()
    for path in folder.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def main() -> int:
    """Exit status: 0 written or up to date, 1 with --check when a file is not."""
    parser = argparse.ArgumentParser(
        prog="python -m grafana.source", description=__doc__, epilog=EXAMPLE
    )
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    check = parser.parse_args().check
    changed = outdated(FOLDER)
    if check:
        for name in changed:
            print(f"{name}: not what grafana/source makes; run python -m grafana.source")
        return 1 if changed else 0
    write(FOLDER)
    print(f"{len(DASHBOARDS)} dashboards, {len(changed)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
