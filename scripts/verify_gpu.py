"""Prove on a GPU host with the stack up what no CPU can: engine, answers, GPU metrics.

Compares the logits of the served TensorRT engine with ONNX Runtime on this CPU, on photographs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from common import manifest
from doctor_checks.finding import Finding, Status
from doctor_checks.project import Project
from doctor_checks.report import show
from engine import EnvironmentProblem
from engine.host import query_gpus
from engine.target import find_targets
from gpu_checks.checks import CHECKS
from gpu_checks.server import Stack, get

PROJECT_ROOT = Path(__file__).resolve().parent.parent

EXAMPLE = """example:
  docker compose up -d --wait
  python scripts/verify_gpu.py
  python scripts/verify_gpu.py --pipeline efficientnet_lite0 --json
"""


def parse_arguments(arguments: Sequence[str] | None, project: Project) -> argparse.Namespace:
    """The command line; a wrong one exits with 2."""
    address = project.settings.get("BIND_ADDRESS", "127.0.0.1").replace("0.0.0.0", "127.0.0.1")
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default=f"http://{address}:{project.settings['HTTP_PORT']}")
    parser.add_argument(
        "--metrics-url", default=f"http://{address}:{project.settings['METRICS_PORT']}"
    )
    parser.add_argument("--pipeline", default="resnet50")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    return parser.parse_args(arguments)


def examine(options: argparse.Namespace, project: Project) -> list[Finding]:
    """All findings; EnvironmentProblem without GPU or server, ManifestError without an export."""
    query_gpus()
    (target,) = find_targets(project.repository, options.pipeline)
    stack = Stack(project, target, options.url.rstrip("/"), options.metrics_url.rstrip("/"))
    get(f"{stack.server}/v2/health/ready")
    return [finding for check in CHECKS for finding in check(stack)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: everything proven; 1: something is not so; 2: no GPU, no server or usage."""
    project = Project.load(PROJECT_ROOT, os.environ)
    options = parse_arguments(arguments, project)
    try:
        findings = examine(options, project)
    except (EnvironmentProblem, manifest.ManifestError) as error:
        print(f"verify-gpu: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([finding.to_json() for finding in findings]))
    else:
        show(findings)
    return int(any(finding.status is Status.PROBLEM for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
