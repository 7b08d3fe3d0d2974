"""Check a running stack from outside: a photograph is classified, everything is scraped and shown.

Uses the published ports (BIND_ADDRESS, HTTP_PORT, PROMETHEUS_PORT, GRAFANA_PORT) and the secrets.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import requests
from rich.console import Console
from rich.table import Table

PROJECT_ROOT = Path(__file__).resolve().parent.parent
PHOTOGRAPH = PROJECT_ROOT / "docs" / "pictures" / "cat.jpg"
REQUEST_TIMEOUT_S = 10
RETRY_PAUSE_S = 1.0

EXAMPLE = """example:
  python scripts/smoke.py
  python scripts/smoke.py --image my.jpg --wait-s 60 --json
"""


class CheckFailed(Exception):
    """What is wrong with the stack, and where to look."""


@dataclass(frozen=True)
class Stack:
    """Where the running stack is."""

    triton: str
    prometheus: str
    grafana: str
    secrets: Path
    pipeline: str
    image: Path


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str
    passed: bool
    detail: str


def get(url: str, **options: Any) -> requests.Response:
    """GET `url`; CheckFailed where nobody listens."""
    try:
        return requests.get(url, timeout=REQUEST_TIMEOUT_S, **options)
    except requests.RequestException as error:
        raise CheckFailed(f"{url} does not answer ({type(error).__name__})") from error


def query(stack: Stack, expression: str) -> list[dict[str, Any]]:
    """The instant vector of a PromQL expression."""
    reply = get(f"{stack.prometheus}/api/v1/query", params={"query": expression})
    if reply.status_code != 200:
        raise CheckFailed(f"Prometheus refuses {expression}: {reply.text[:200]}")
    return list(reply.json()["data"]["result"])


def check_classification(stack: Stack) -> str:
    """The photograph gets predictions from the ensemble."""
    image = base64.b64encode(stack.image.read_bytes()).decode()
    url = f"{stack.triton}/v2/models/{stack.pipeline}_ensemble/generate"
    began_s = time.perf_counter()
    try:
        reply = requests.post(url, json={"RAW_IMAGE": image}, timeout=REQUEST_TIMEOUT_S)
    except requests.RequestException as error:
        raise CheckFailed(f"{url} does not answer ({type(error).__name__})") from error
    took_ms = (time.perf_counter() - began_s) * 1000
    if reply.status_code != 200:
        raise CheckFailed(f"{url}: {reply.status_code} {reply.text[:200]}")
    result = json.loads(reply.json()["OUTPUT_RESULTS"])
    if "error" in result:
        raise CheckFailed(f"{stack.image.name}: {result['error']}: {result['message']}")
    best = result["predictions"][0]
    return f"{stack.image.name} is {best['class']} ({best['confidence']}), {took_ms:.0f} ms"


def check_repository_lock(stack: Stack) -> str:
    """The model-repository API refuses strangers and obeys the admin key."""
    url = f"{stack.triton}/v2/repository/index"
    key = read_secret(stack, "triton_admin_key")
    codes = []
    for headers in ({}, {"triton-admin-key": key}):
        try:
            codes.append(requests.post(url, headers=headers, timeout=REQUEST_TIMEOUT_S).status_code)
        except requests.RequestException as error:
            raise CheckFailed(f"{url} does not answer ({type(error).__name__})") from error
    if codes != [403, 200]:
        raise CheckFailed(f"{url}: {codes[0]} without the key and {codes[1]} with it, not 403, 200")
    return "403 without the key, 200 with it"


def check_targets(stack: Stack) -> str:
    """Prometheus reaches every target that it knows."""
    reply = get(f"{stack.prometheus}/api/v1/targets", params={"state": "active"})
    targets = reply.json()["data"]["activeTargets"]
    down = [
        f"{t['labels']['job']}: {t['lastError'] or 'not scraped yet'}"
        for t in targets
        if t["health"] != "up"
    ]
    if down or not targets:
        raise CheckFailed("; ".join(down) or "no target configured")
    return ", ".join(sorted({t["labels"]["job"] for t in targets})) + " up"


def check_metrics(stack: Stack) -> str:
    """The pipeline's own metrics have reached Prometheus."""
    names = {
        s["metric"]["__name__"]
        for s in query(stack, 'count by (__name__) ({__name__=~"pipeline_.+"})')
    }
    if not names:
        raise CheckFailed("no pipeline_* metric in Prometheus")
    return f"{len(names)} pipeline_* metrics"


def check_rules(stack: Stack) -> str:
    """Every recording and alerting rule is loaded and evaluates."""
    groups = get(f"{stack.prometheus}/api/v1/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    broken = [
        f"{r['name']}: {r.get('lastError') or r['health']}" for r in rules if r["health"] != "ok"
    ]
    if broken or not rules:
        raise CheckFailed("; ".join(broken[:3]) or "no rule loaded")
    return f"{len(rules)} rules evaluate"


def check_grafana(stack: Stack) -> str:
    """Grafana wants the password, reaches Prometheus and shows every dashboard of the checkout."""
    if get(f"{stack.grafana}/api/search").status_code != 401:
        raise CheckFailed("Grafana answers without a password")
    login = ("admin", read_secret(stack, "grafana_admin_password"))
    reply = get(f"{stack.grafana}/api/search", auth=login, params={"type": "dash-db"})
    if reply.status_code != 200:
        raise CheckFailed(
            f"Grafana refuses the password of the secret ({reply.status_code}): it keeps the one "
            "its database was created with; see grafana cli admin reset-admin-password"
        )
    shown = {dashboard["uid"] for dashboard in reply.json()}
    expected = {
        json.loads(path.read_text())["uid"]
        for path in (PROJECT_ROOT / "grafana" / "dashboards").glob("*.json")
    }
    if missing := expected - shown:
        raise CheckFailed(f"dashboards not provisioned: {', '.join(sorted(missing))}")
    for source in get(f"{stack.grafana}/api/datasources", auth=login).json():
        health = get(f"{stack.grafana}/api/datasources/uid/{source['uid']}/health", auth=login)
        if health.status_code != 200:
            raise CheckFailed(f"data source {source['name']}: {health.text[:200]}")
    return f"{len(expected)} dashboards, data source answers"


CHECKS: dict[str, Callable[[Stack], str]] = {
    "photograph": check_classification,
    "repository API": check_repository_lock,
    "targets": check_targets,
    "metrics": check_metrics,
    "rules": check_rules,
    "Grafana": check_grafana,
}


def read_secret(stack: Stack, name: str) -> str:
    """A secret's text; CheckFailed where it is missing."""
    try:
        return (stack.secrets / name).read_text().strip()
    except OSError as error:
        raise CheckFailed(f"{stack.secrets / name}: {error.strerror}; run make secrets") from error


def run_checks(stack: Stack, wait_s: float) -> Iterator[Finding]:
    """Every check, each retried until `wait_s` after the start (scrapes take a moment)."""
    deadline = time.monotonic() + wait_s
    for name, check in CHECKS.items():
        while True:
            try:
                yield Finding(name, True, check(stack))
                break
            except CheckFailed as failure:
                if time.monotonic() > deadline:
                    yield Finding(name, False, str(failure))
                    break
            print(f"smoke: waiting for {name}", file=sys.stderr, flush=True)
            time.sleep(RETRY_PAUSE_S)


def print_table(findings: Sequence[Finding]) -> None:
    """The outcome for people, on stdout."""
    table = Table("", "check", "finding")
    for finding in findings:
        table.add_row("ok" if finding.passed else "FAILED", finding.check, finding.detail)
    Console().print(table)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; a wrong one exits with 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    host = os.environ.get("BIND_ADDRESS", "127.0.0.1")
    host = "127.0.0.1" if host == "0.0.0.0" else host
    for service, variable, port in (
        ("triton", "HTTP_PORT", 8000),
        ("prometheus", "PROMETHEUS_PORT", 9090),
        ("grafana", "GRAFANA_PORT", 3000),
    ):
        parser.add_argument(
            f"--{service}", default=f"http://{host}:{os.environ.get(variable, port)}", metavar="URL"
        )
    parser.add_argument("--secrets", type=Path, default=PROJECT_ROOT / "secrets", metavar="FOLDER")
    parser.add_argument("--pipeline", default="resnet50", help="prefix of the four models")
    parser.add_argument("--image", type=Path, default=PHOTOGRAPH)
    parser.add_argument(
        "--wait-s", type=float, default=45, help="how long a check may take to pass (45)"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: all checks pass; 1: one failed; 2: wrong usage or no image."""
    options = parse_arguments(arguments)
    if not options.image.is_file():
        print(f"smoke: {options.image} is not there; give --image FILE", file=sys.stderr)
        return 2
    stack = Stack(
        options.triton,
        options.prometheus,
        options.grafana,
        options.secrets,
        options.pipeline,
        options.image,
    )
    findings = list(run_checks(stack, options.wait_s))
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        print_table(findings)
    return 0 if all(finding.passed for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
