"""The committed dashboards and their provisioning: generated, linted, loadable as they stand."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.source import DASHBOARDS, lint, lint_promql
from grafana.source.__main__ import outdated, write
from grafana.source.metric_names import known_names

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "grafana" / "dashboards"
PROVISIONING = ROOT / "grafana" / "provisioning"
PAGES = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
KNOWN = known_names()
Json = dict[str, Any]


def page(uid: str) -> Json:
    return copy.deepcopy(next(each for each in PAGES if each["uid"] == uid))


def test_there_are_four_pages_with_their_fixed_uids() -> None:
    assert {each["uid"] for each in PAGES} == {
        "triton-overview",
        "triton-stages",
        "triton-host",
        "triton-releases",
    }


def test_the_committed_dashboards_are_what_the_source_makes() -> None:
    assert outdated(FOLDER) == []


def test_the_command_checks_without_writing() -> None:
    command = [sys.executable, "-m", "grafana.source", "--check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_writing_repairs_a_changed_a_missing_and_a_leftover_file(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "triton-stages.json").unlink()
    (tmp_path / "triton-host.json").write_text("{}", encoding="utf-8")
    (tmp_path / "gone.json").write_text("{}", encoding="utf-8")
    assert outdated(tmp_path) == ["gone.json", "triton-host.json", "triton-stages.json"]
    write(tmp_path)
    assert outdated(tmp_path) == []


def test_the_pages_pass_the_lint() -> None:
    faults = lint.lint(PAGES, KNOWN)
    open_faults = [
        fault
        for fault in faults
        if not any(lint.is_excluded(fault, exclusion) for exclusion in lint.EXCLUSIONS)
    ]
    assert open_faults == []


@pytest.mark.parametrize("exclusion", lint.EXCLUSIONS, ids=lambda each: f"{each[0]}-{each[1]}")
def test_each_exclusion_is_still_needed_and_has_a_reason(
    exclusion: tuple[str, str, str, str],
) -> None:
    faults = lint.lint(PAGES, KNOWN)
    assert any(lint.is_excluded(fault, exclusion) for fault in faults)
    assert len(exclusion[3]) > 20


def _set(path: str, value: Any) -> Callable[[Json], None]:
    """Changes the value at a dotted path; a number is a list index."""

    def change(target: Json) -> None:
        node: Any = target
        *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        for key in parents:
            node = node[key]
        node[last] = value

    return change


MUTATIONS: list[tuple[Callable[[Json], None], str]] = [
    (_set("uid", "Overview Page"), "uid 'Overview Page'"),
    (_set("id", 7), "id is not null"),
    (_set("editable", True), "editable"),
    (_set("__inputs", []), "__inputs"),
    (_set("description", ""), "no description"),
    (_set("templating.list.0.name", "ds"), "no variable datasource"),
    (_set("templating.list.1.refresh", 1), "not refreshed"),
    (_set("templating.list.2.label", ""), "no label"),
    (_set("annotations.list.0.datasource", {"uid": "prometheus"}), "is not ${datasource}"),
    (_set("panels.1.datasource", {"uid": "${DS_PROMETHEUS}"}), "is not ${datasource}"),
    (_set("panels.1.targets.0.datasource", "Prometheus"), "is not ${datasource}"),
    (_set("panels.1.title", ""), "no title"),
    (_set("panels.1.description", "p95"), "no description"),
    (_set("panels.1.fieldConfig.defaults.unit", ""), "no unit"),
    (_set("panels.1.fieldConfig.defaults.thresholds.steps", []), "no thresholds"),
    (_set("panels.1.targets", []), "nothing is queried"),
    (_set("panels.1.type", "graph"), "panel type graph"),
    (_set("panels.1.gridPos.x", 22), "outside the 24 columns"),
    (_set("panels.1.gridPos.x", 5), "overlaps Service"),
    (_set("panels.1.id", 1), "second panel"),
    (_set("links.0.url", "/d/elsewhere"), "not to all other pages"),
    (_set("links.0.keepTime", False), "loses the time range"),
    (_set("panels.1.targets.0.expr", 'up{job=~"$jobs"}'), "undefined variable jobs"),
]


@pytest.mark.parametrize(("mutate", "fault"), MUTATIONS, ids=[fault for _, fault in MUTATIONS])
def test_the_lint_sees_a_broken_page(mutate: Callable[[Json], None], fault: str) -> None:
    broken = page("triton-overview")
    mutate(broken)
    others = [each for each in PAGES if each["uid"] != "triton-overview"]
    assert any(fault in text for _, _, text in lint.lint([broken, *others], KNOWN))


BAD_QUERIES = [
    ('sum(rate(up{job=~"$job"}[$__rate_interval])', "not valid PromQL"),
    ('nv_gpu_power{job=~"$job"}', "unknown metric nv_gpu_power"),
    ('sum(nv_inference_count{job=~"$job"})', "counter nv_inference_count outside"),
    ('sum(rate(nv_gpu_utilization{job=~"$job"}[$__rate_interval]))', "over the gauge"),
    ('sum(rate(nv_inference_count{job=~"$job"}[5m]))', "fixed window of 300 s"),
    ('rate(nv_inference_count{job=~"$job"}[$__rate_interval])', "without an aggregation"),
    ("sum(rate(nv_inference_count[$__rate_interval]))", "without job"),
    (
        "histogram_quantile(0.9, sum by (stage) (rate("
        'pipeline_stage_duration_seconds_bucket{job=~"$job"}[$__rate_interval])))',
        "drops the label le",
    ),
    ('DCGM_FI_DEV_GPU_TEMP{job=~"$job"}', "another job"),
]


@pytest.mark.parametrize(("expr", "fault"), BAD_QUERIES, ids=[fault for _, fault in BAD_QUERIES])
def test_the_lint_sees_a_bad_query(expr: str, fault: str) -> None:
    assert any(fault in each for each in lint_promql.check(expr, KNOWN))


def test_counting_series_reads_no_counter_value() -> None:
    served = 'group by (model) (nv_inference_request_success{job=~"$job"})'
    assert lint_promql.check(served, KNOWN) == []


def test_each_page_marks_releases_restarts_and_alerts() -> None:
    for each in PAGES:
        names = [annotation["name"] for annotation in each["annotations"]["list"]]
        assert names == ["Releases", "Restarts", "Alerts"]


def test_every_page_has_panels_that_must_show_data() -> None:
    for each in DASHBOARDS:
        assert sum(panel.always_has_data for panel in each.panels) >= 3, each.uid


def test_gpu_panels_say_that_there_is_no_gpu_rather_than_nothing() -> None:
    silent = [
        panel["title"]
        for panel in lint.panels_of(page("triton-host"))
        if re.search(r"nv_gpu|nv_energy|DCGM_|node_", json.dumps(panel["targets"]))
        and "noValue" not in panel["fieldConfig"]["defaults"]
    ]
    assert silent == []


def test_the_data_source_is_fixed_and_scrapes_as_often_as_prometheus() -> None:
    text = (PROVISIONING / "datasources" / "prometheus.yml").read_text(encoding="utf-8")
    (source,) = yaml.safe_load(text)["datasources"]
    prometheus = (ROOT / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    interval = yaml.safe_load(prometheus)["global"]["scrape_interval"]
    assert (source["uid"], source["type"]) == ("prometheus", "prometheus")
    assert source["editable"] is False
    assert source["jsonData"]["timeInterval"] == interval


def test_the_provider_lets_nobody_change_or_delete_a_page() -> None:
    text = (PROVISIONING / "dashboards" / "dashboards.yml").read_text(encoding="utf-8")
    (provider,) = yaml.safe_load(text)["providers"]
    assert provider["disableDeletion"] is True
    assert provider["allowUiUpdates"] is False
    assert provider["options"]["path"] == "/etc/grafana/dashboards"


def test_compose_mounts_what_is_provisioned() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    mounts = compose["services"]["grafana"]["volumes"]
    assert "./grafana/provisioning:/etc/grafana/provisioning:ro" in mounts
    assert "./grafana/dashboards:/etc/grafana/dashboards:ro" in mounts


def test_the_burn_rate_lines_stand_where_the_alerts_do() -> None:
    rules = (ROOT / "prometheus" / "alerts" / "slo.yml").read_text(encoding="utf-8")
    factors = {float(factor) for factor in re.findall(r"> ([0-9.]+) \* 0", rules)}
    (panel,) = (each for each in page("triton-overview")["panels"] if "burn" in each["title"])
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert {step["value"] for step in steps[1:]} <= factors
