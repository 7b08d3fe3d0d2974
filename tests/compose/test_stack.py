"""The running stack, from outside: published ports, Prometheus, and the Grafana stub."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import requests
import yaml
from compose_stack import PROJECT_ROOT, Stack, wait_until

GRAFANA_USER = "admin"


def smoke(stack: Stack, wait_s: float) -> tuple[int, dict[str, dict[str, object]]]:
    """Exit code and findings by check of scripts/smoke.py."""
    done = stack.run(
        sys.executable, "scripts/smoke.py", "--json", "--wait-s", str(wait_s),
        check=False, timeout_s=150,
    )  # fmt: skip
    return done.returncode, {finding["check"]: finding for finding in json.loads(done.stdout)}


def test_the_smoke_check_passes_on_the_running_stack(stack: Stack) -> None:
    code, findings = smoke(stack, wait_s=60)
    assert code == 0, findings


def test_photographs_are_classified_through_the_published_port(stack: Stack) -> None:
    from skimage import data, io

    for name in ("chelsea", "coffee", "rocket", "astronaut"):
        path = stack.project / f"{name}.png"
        io.imsave(path, getattr(data, name)(), check_contrast=False)
        (result,) = stack.classify(path.read_bytes())
        assert len(result["predictions"]) == 5, result
        confidences = [prediction["confidence"] for prediction in result["predictions"]]
        assert confidences == sorted(confidences, reverse=True)


def test_a_bad_image_of_a_batch_carries_its_code_and_its_neighbours_are_answered(
    stack: Stack, photograph: bytes
) -> None:
    alone = stack.classify(photograph)
    good, bad, empty, again = stack.classify(photograph, photograph[:600], b"", photograph)
    assert [good] == [again] == alone
    assert bad["error"] == "CORRUPT_IMAGE"
    assert empty["error"] == "EMPTY_INPUT"


def test_every_prometheus_target_is_up(stack: Stack) -> None:
    def all_up() -> bool:
        reply = requests.get(stack.url("PROMETHEUS_PORT", "/api/v1/targets"), timeout=5)
        targets = reply.json()["data"]["activeTargets"]
        return bool(targets) and all(target["health"] == "up" for target in targets)

    wait_until(all_up, 45, "every target up")
    assert stack.query('up{job="triton"}')


def test_the_images_sent_are_counted_in_prometheus(stack: Stack, photograph: bytes) -> None:
    expression = 'sum(pipeline_images_total{outcome="ok"})'

    def counted() -> float:
        found = stack.query(expression)
        return float(found[0]["value"][1]) if found else 0

    before = counted()
    stack.classify(*[photograph] * 12)
    wait_until(lambda: counted() >= before + 12, 45, "12 more images counted")


def test_what_runs_is_visible_as_build_info(stack: Stack) -> None:
    found = wait_until(lambda: stack.query("pipeline_build_info"), 45, "pipeline_build_info")
    assert {series["metric"]["config"] for series in found} == {"cpu"}


def test_every_query_of_every_dashboard_passes_the_grafana_stub_and_prometheus(
    stack: Stack,
) -> None:
    login = (GRAFANA_USER, stack.secret("grafana_admin_password"))
    dashboards = requests.get(
        stack.url("GRAFANA_PORT", "/api/search"), auth=login, timeout=5
    ).json()
    checked = 0
    for hit in dashboards:
        url = stack.url("GRAFANA_PORT", f"/api/dashboards/uid/{hit['uid']}")
        dashboard = requests.get(url, auth=login, timeout=5).json()["dashboard"]
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                expression = with_variables(target["expr"], dashboard)
                reply = requests.post(
                    stack.url("GRAFANA_PORT", "/api/datasources/proxy/uid/prometheus/api/v1/query"),
                    data={"query": expression}, auth=login, timeout=15,
                )  # fmt: skip
                assert reply.status_code == 200, (panel["title"], expression, reply.text[:300])
                checked += 1
    assert checked > 0


def with_variables(expression: str, dashboard: dict) -> str:
    """The expression with Grafana's variables replaced by values that match everything."""
    names = [variable["name"] for variable in dashboard.get("templating", {}).get("list", [])]
    for name in sorted(names, key=len, reverse=True):
        for written in (f"${{{name}:regex}}", f"${{{name}}}", f"${name}"):
            expression = expression.replace(written, ".*")
    for name in ("$__rate_interval", "$__interval", "$__range"):
        expression = expression.replace(name, "1m")
    return expression


def test_a_second_up_exports_nothing_again_and_leaves_the_server_alone(stack: Stack) -> None:
    model = stack.project / "model_repository/resnet50_inference/1/model.onnx"
    before, started = model.stat().st_mtime_ns, stack.inspect("triton")["State"]["StartedAt"]
    stack.up()
    assert "up to date" in stack.logs("export")
    assert model.stat().st_mtime_ns == before
    assert stack.inspect("triton")["State"]["StartedAt"] == started


def test_the_admin_key_loads_a_model_again_without_a_failed_request(
    stack: Stack, photograph: bytes
) -> None:
    url = stack.url("HTTP_PORT", "/v2/repository/models/resnet50_postprocess/load")
    headers = {"triton-admin-key": stack.secret("triton_admin_key")}
    restarts = stack.restarts()
    config = stack.project / "model_repository/resnet50_postprocess/config.pbtxt"
    for _ in range(3):
        config.touch()  # an unchanged model is not loaded again
        assert requests.post(url, headers=headers, json={}, timeout=30).status_code == 200
        assert stack.classify(photograph)[0]["predictions"]
    time.sleep(7)  # one health check later the old stubs' end has not been taken for a death
    assert stack.restarts() == restarts


def test_the_models_find_common_but_not_the_stand_in_backend(stack: Stack) -> None:
    assert "/opt/bundle/common" in stack.exec(
        "triton", "python3", "-c", "import common; print(common.__file__)"
    )
    done = stack.compose("exec", "-T", "triton", "python3", "-c", "import onnxruntime", check=False)
    assert "No module named 'onnxruntime'" in done.stderr


@pytest.mark.parametrize("service", ["triton", "prometheus", "grafana"])
def test_logs_are_rotated_and_the_service_comes_back_by_itself(stack: Stack, service: str) -> None:
    host = stack.inspect(service)["HostConfig"]
    assert host["LogConfig"]["Config"] == {"max-size": "10m", "max-file": "3"}
    assert host["RestartPolicy"]["Name"] == "unless-stopped"


def test_the_stack_uses_the_names_that_prometheus_scrapes(stack: Stack) -> None:
    text = (PROJECT_ROOT / "prometheus" / "prometheus.yml").read_text()
    services = stack.config()["services"]
    for job in yaml.safe_load(text)["scrape_configs"]:
        for group in job.get("static_configs", []):
            for target in group["targets"]:
                host = target.split(":")[0]
                assert host in services or host == "localhost", target


def test_photographs_of_the_documentation_are_small() -> None:
    assert Path(PROJECT_ROOT, "docs/pictures/cat.jpg").stat().st_size <= 60_000
