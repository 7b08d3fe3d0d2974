"""Examine this checkout and this host: each finding with its cause and what to do about it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent

try:
    from doctor_checks.checks import CONFIGURATION, HOST
    from doctor_checks.finding import Finding, Status
    from doctor_checks.project import Project
    from doctor_checks.report import show
except ModuleNotFoundError as missing:
    print(
        f"doctor: the package {missing.name} is not installed here; run `make doctor`, which "
        "installs what it needs",
        file=sys.stderr,
    )
    sys.exit(2)

EXAMPLE = """examples:
  python scripts/doctor.py            # everything
  python scripts/doctor.py --lint     # the configuration only; needs neither Docker nor GPU
  python scripts/doctor.py --json
"""


def examine(project: Project, lint: bool) -> list[Finding]:
    """Findings of the configuration checks and, unless ``lint``, of the host checks."""
    checks = CONFIGURATION if lint else (*HOST, *CONFIGURATION)
    return [finding for check in checks for finding in check.run(project)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: no problem (warnings allowed); 1: at least one problem; 2: usage or environment."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lint", action="store_true", help="only the configuration files")
    parser.add_argument("--project", type=Path, default=PROJECT_ROOT, help="the checkout")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(arguments)
    if not (options.project / "model_repository").is_dir():
        print(f"doctor: {options.project} has no model_repository folder", file=sys.stderr)
        return 2
    findings = examine(Project.load(options.project.resolve(), os.environ), options.lint)
    problems = [finding for finding in findings if finding.status is Status.PROBLEM]
    if options.json:
        print(json.dumps([finding.to_json() for finding in findings], ensure_ascii=False))
    elif options.lint:
        for finding in findings:
            if finding.status in (Status.WARNING, Status.PROBLEM):
                print(f"{finding.status.value}: {finding.detail}; {finding.fix}")
        print(f"configuration: {len(problems)} problem(s)", file=sys.stderr)
    else:
        show(findings)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
