"""A real Prometheus with the bundle's own rules, on a free port of the loopback address."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import requests
import yaml

from common.recorder import FLUSH_INTERVAL_S
from embedded.preflight import free_ports

PROJECT = Path(__file__).resolve().parents[2]


class PrometheusProcess:
    """Prometheus with prometheus/prometheus.yml, but other targets and intervals of one second.

    ``targets``: job name → host:port; jobs of the file that are not named keep no target.
    """

    def __init__(self, folder: Path, targets: dict[str, str], interval: str = "1s") -> None:
        self.folder = folder
        self.targets = targets
        self.interval = interval
        [port] = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PrometheusProcess:
        self._write_configuration()
        with (self.folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TZ": "UTC"},
            )
        try:
            self.wait_until(self._is_ready, "Prometheus answers")
            self.settle()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Series of an instant query; raises AssertionError with Prometheus' own message."""
        url = f"{self.url}/api/v1/query"
        answer = requests.get(url, params={"query": expression}, timeout=20).json()
        assert answer["status"] == "success", f"{expression}: {answer.get('error')}"
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def value(self, expression: str) -> float:
        """The one value of an instant query."""
        [series] = self.query(expression)
        return float(series["value"][1])

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        return {name for name, state in self._alerts() if state == "firing"}

    def pending_or_firing(self) -> set[str]:
        """Names of the alerts whose condition holds now."""
        return {name for name, _ in self._alerts()}

    def _alerts(self) -> list[tuple[str, str]]:
        alerts = requests.get(f"{self.url}/api/v1/alerts", timeout=20).json()["data"]["alerts"]
        return [(alert["labels"]["alertname"], alert["state"]) for alert in alerts]

    def rule_groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = requests.get(f"{self.url}/api/v1/rules", timeout=20).json()[
            "data"
        ]["groups"]
        return groups

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = 40) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
            time.sleep(0.2)

    def settle(self) -> None:
        """Return when all that has happened so far is scraped, and every rule has seen it."""
        time.sleep(FLUSH_INTERVAL_S * 2)
        happened = time.time()
        self.wait_until(lambda: self._oldest_scrape() > happened, "every target is scraped")
        scraped = time.time()
        self.wait_until(lambda: self._oldest_evaluation() > scraped, "every rule is evaluated")

    def _oldest_scrape(self) -> float:
        scrapes = [float(s["value"][1]) for s in self.query("timestamp(up)")]
        wanted = sum(target is not None for target in self.targets.values())
        return min(scrapes) if len(scrapes) == wanted else 0.0

    def _oldest_evaluation(self) -> float:
        return min(
            datetime.fromisoformat(group["lastEvaluation"][:19] + "+00:00").timestamp()
            for group in self.rule_groups()
        )

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/-/ready", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def _write_configuration(self) -> None:
        source = PROJECT / "prometheus"
        config = yaml.safe_load((source / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": self.interval, "evaluation_interval": self.interval}
        for job in config["scrape_configs"]:
            target = self.targets.get(job["job_name"])
            if target == "self":
                target = self.address
            job.pop("file_sd_configs", None)
            job["static_configs"] = [{"targets": [target]}] if target else []
        config.pop("alerting")
        self.folder.mkdir(parents=True, exist_ok=True)
        for rules in ("rules", "alerts"):
            shutil.copytree(source / rules, self.folder / rules)
        text = yaml.safe_dump(config, sort_keys=False)
        (self.folder / "prometheus.yml").write_text(text, encoding="utf-8")

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
