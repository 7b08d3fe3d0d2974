"""Write Prometheus' recording rules, alerts and their unit tests below prometheus/.

The objectives come from .env (.env.example where .env says nothing), the rules from
scripts/alerting/. Prometheus reads the result after a restart or SIGHUP.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from alerting.render import render
from alerting.settings import SettingsError, read_settings

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = "example: python scripts/generate_rules.py --check"


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 written or up to date, 1 stale (--check), 2 a setting is wrong."""
    arguments = _parser().parse_args(argv)
    env_files = [ROOT / ".env.example", *arguments.env_file]
    if not arguments.env_file and (ROOT / ".env").exists():
        env_files.append(ROOT / ".env")
    try:
        files = render(read_settings(env_files, ROOT / "model_repository"))
    except (SettingsError, OSError) as error:
        print(f"generate_rules: {error}", file=sys.stderr)
        return 2
    stale = [path for path, text in files.items() if _current(arguments.output / path) != text]
    if not arguments.check:
        for path in stale:
            target = arguments.output / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(files[path], encoding="utf-8")
    _report(stale, arguments)
    return 1 if stale and arguments.check else 0


def _current(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None


def _report(stale: list[str], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps({"stale" if arguments.check else "written": stale}))
    elif stale:
        verb = "stale (make rules)" if arguments.check else "written"
        print("\n".join(f"{path}: {verb}" for path in stale))
    else:
        print("rules are up to date")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLE)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    parser.add_argument("--env-file", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--output", type=Path, default=ROOT / "prometheus", metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="machine-readable result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
