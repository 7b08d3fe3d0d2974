"""Rules, alerts and their tests: generated, valid, complete, and true to their unit tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerting.render import alert_groups, all_alerts, render
from alerting.settings import SettingsError, read_settings
from common.metric_families import LATENCY_BUCKETS_S

PROJECT = Path(__file__).resolve().parents[2]
PROMETHEUS = PROJECT / "prometheus"
MODELS = PROJECT / "model_repository"
ENV = PROJECT / ".env.example"
SETTINGS = read_settings([ENV], MODELS)
TEST_FILES = sorted(path.name for path in PROMETHEUS.glob("tests/*.yml"))
CHECKS = [
    check
    for file in TEST_FILES
    for test in yaml.safe_load((PROMETHEUS / "tests" / file).read_text(encoding="utf-8"))["tests"]
    for check in test["alert_rule_test"]
]


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        package = "prometheus-alertmanager" if name == "amtool" else "prometheus"
        pytest.skip(f"{name} is not installed: apt-get install {package}")
    return path


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    return output


def test_the_committed_files_are_what_the_source_generates() -> None:
    for path, text in render(SETTINGS).items():
        assert (PROMETHEUS / path).read_text(encoding="utf-8") == text, f"{path}: make rules"


def test_no_generated_file_is_left_over() -> None:
    folders = ("rules", "alerts", "tests")
    found = {
        f"{folder}/{file.name}" for folder in folders for file in PROMETHEUS.glob(f"{folder}/*")
    }
    assert found == set(render(SETTINGS))


def test_prometheus_accepts_the_configuration() -> None:
    run(tool("promtool"), "check", "config", PROMETHEUS / "prometheus.yml")


def test_prometheus_accepts_every_optional_target(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(PROMETHEUS, tmp_path / "prometheus"))
    for example in folder.glob("targets/*.yml.example"):
        example.rename(example.with_suffix(""))
    output = run(tool("promtool"), "check", "config", folder / "prometheus.yml")
    assert "does not exist" not in output


def test_the_rules_pass_every_lint() -> None:
    files = [*PROMETHEUS.glob("rules/*.yml"), *PROMETHEUS.glob("alerts/*.yml")]
    run(tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", *files)


@pytest.mark.parametrize("name", TEST_FILES)
def test_alerts_fire_and_stay_silent_as_their_cases_say(name: str) -> None:
    run(tool("promtool"), "test", "rules", PROMETHEUS / "tests" / name)


@pytest.mark.parametrize("name", sorted({alert.name for alert in all_alerts(SETTINGS)}))
def test_every_alert_has_a_firing_and_a_silent_case(name: str) -> None:
    cases = [check for check in CHECKS if check["alertname"] == name]
    assert any(check["exp_alerts"] for check in cases)
    # The watchdog is the one alert that must never be silent.
    assert name == "Watchdog" or any(not check["exp_alerts"] for check in cases)


@pytest.mark.parametrize(
    "alert", all_alerts(SETTINGS), ids=lambda alert: alert.name + alert.labels.get("window", "")
)
def test_an_alert_has_a_severity_a_summary_and_a_runbook_link(alert: Any) -> None:
    assert alert.severity in {"page", "ticket", "none"}
    assert re.fullmatch(r"[A-Z][A-Za-z]+", alert.name)
    assert alert.summary
    assert alert.description.endswith(".")
    link = alert.annotations(SETTINGS.runbook_url)["runbook_url"]
    assert link == f"docs/runbook.md#{alert.name.lower()}"


def test_the_double_count_is_undone_in_exactly_one_place() -> None:
    texts = [rule.expr for group in alert_groups(SETTINGS) for rule in group.rules]
    recording = yaml.safe_load((PROMETHEUS / "rules" / "recording.yml").read_text())
    rules = [rule for group in recording["groups"] for rule in group["rules"]]
    texts += [rule["expr"] for rule in rules]
    raw = [t for t in texts if re.search(r'request_failure\{[^}]*model=~"\.\+_ensemble"', t)]
    assert len(raw) == 1
    assert "/ 2" in raw[0]


# --- Alertmanager -----------------------------------------------------------------------------

ALERTMANAGER = PROMETHEUS / "alertmanager" / "alertmanager.yml"


def test_alertmanager_accepts_its_configuration() -> None:
    run(tool("amtool"), "check-config", ALERTMANAGER)


@pytest.mark.parametrize(
    "alert", all_alerts(SETTINGS), ids=lambda alert: alert.name + alert.labels.get("window", "")
)
def test_an_alert_is_routed_by_its_severity(alert: Any) -> None:
    labels = [f"alertname={alert.name}", f"severity={alert.severity}"]
    command = [tool("amtool"), "config", "routes", "test", "--config.file", ALERTMANAGER]
    receiver = {"none": "watchdog"}.get(alert.severity, alert.severity)
    assert receiver in run(*command, *labels).splitlines()


def test_inhibitions_name_existing_alerts() -> None:
    names = {alert.name for alert in all_alerts(SETTINGS)}
    rules = yaml.safe_load(ALERTMANAGER.read_text())["inhibit_rules"]
    matchers = [m for rule in rules for m in rule["source_matchers"] + rule["target_matchers"]]
    patterns = [m.partition("=~")[2].strip(' "') for m in matchers if "=~" in m]
    assert patterns
    for alternative in (part for pattern in patterns for part in pattern.split("|")):
        assert any(re.fullmatch(alternative, name) for name in names), alternative


# --- settings ---------------------------------------------------------------------------------


def settings_with(tmp_path: Path, **values: str) -> Any:
    file = tmp_path / ".env"
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return read_settings([ENV, file], MODELS)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("SLO_AVAILABILITY", "99.5", "ratio"),
        ("SLO_AVAILABILITY", "high", "number"),
        ("SLO_LATENCY_RATIO", "1", "ratio"),
        ("SLO_LATENCY_RATIO", "0.9", "from 0.94"),
        ("SLO_LATENCY_SECONDS", "0.2", "0.25"),
        ("EXPECTED_PIPELINES", "resnet51", "resnet51_preprocess"),
        ("RUNBOOK_URL", "", "RUNBOOK_URL"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(
    tmp_path: Path, key: str, value: str, message: str
) -> None:
    with pytest.raises(SettingsError, match=message) as refused:
        settings_with(tmp_path, **{key: value})
    assert key in str(refused.value)


def test_other_objectives_give_rules_that_pass_their_own_tests(tmp_path: Path) -> None:
    (tmp_path / "env").write_text(
        "SLO_AVAILABILITY=0.99\nSLO_LATENCY_SECONDS=0.5\nSLO_LATENCY_RATIO=0.97\n"
        "RUNBOOK_URL=https://example.org/runbook\n"
    )
    script = PROJECT / "scripts" / "generate_rules.py"
    options = ("--env-file", tmp_path / "env", "--output", tmp_path, "--json")
    written = json.loads(run(sys.executable, script, *options).splitlines()[-1])["written"]
    assert len(written) == len(render(SETTINGS))
    assert "0.99" in (tmp_path / "rules" / "recording.yml").read_text()
    run(tool("promtool"), "test", "rules", tmp_path / "tests" / "slo.yml")


def test_the_script_reports_stale_files(tmp_path: Path) -> None:
    script = PROJECT / "scripts" / "generate_rules.py"
    command = (sys.executable, script, "--check", "--env-file", ENV, "--output", tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "rules/recording.yml: stale" in done.stdout
    assert not list(tmp_path.iterdir())


def test_every_latency_objective_on_offer_is_a_histogram_bound(tmp_path: Path) -> None:
    for bound in LATENCY_BUCKETS_S:
        settings = settings_with(tmp_path, SLO_LATENCY_SECONDS=f"{bound:g}")
        assert settings.latency_seconds == bound
