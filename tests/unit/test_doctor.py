"""The doctor: settings, Docker, GPU and driver, embedded mode, and the command itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_standins import docker, look, nvidia_smi, ports
from engine_standins import executable

from doctor_checks import embedded_mode, gpu, machine
from doctor_checks.finding import Status
from doctor_checks.project import Project, read_settings, version_numbers
from embedded.errors import PreflightError

pytestmark = pytest.mark.usefixtures("tools")
pytest_plugins = ["doctor_fixtures"]

ROOT = Path(__file__).resolve().parents[2]
RTX = "NVIDIA GeForce RTX 4090, 8.9, 595.58.03"


def test_the_environment_wins_over_env_which_wins_over_the_example(checkout: Path) -> None:
    (checkout / ".env").write_text("HTTP_PORT=9000\nGRPC_PORT='9001'   # ours\n")
    project = Project.load(checkout, {"HTTP_PORT": "9100", "HOME": "/nowhere"})
    assert project.settings["HTTP_PORT"] == "9100"
    assert project.settings["GRPC_PORT"] == "9001"
    assert project.settings["METRICS_PORT"] == "8002"
    assert "HOME" not in project.settings


def test_the_cpu_override_means_cpu_whatever_model_config_says(checkout: Path) -> None:
    text = "COMPOSE_FILE=docker-compose.yml:compose.cpu.yml\nMODEL_CONFIG=tensorrt\n"
    (checkout / ".env").write_text(text)
    project = Project.load(checkout, {})
    assert (project.model_config, project.needs_gpu) == ("cpu", False)


def test_every_knob_of_the_example_is_read() -> None:
    settings = read_settings(ROOT / ".env.example")
    assert settings["NGC_RELEASE"].count(".") == 1
    assert {*machine.PORTS, "MODEL_CONFIG", "BUNDLE_UID"} <= settings.keys()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("v2.26.1-4", (2, 26, 1)),
        ("2.40.3-desktop.1", (2, 40, 3)),
        ("NVIDIA Container Toolkit CLI version 1.17.8", (1, 17, 8)),
        ("none", ()),
    ],
)
def test_versions_are_read_as_tools_print_them(text: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(text) == numbers


def test_without_docker_the_check_does_not_apply(checkout: Path) -> None:
    finding = look(machine.check_docker, checkout)
    assert (finding.status, finding.fix) == (
        Status.NOT_APPLICABLE,
        "embedded mode needs none: make demo",
    )


def test_a_docker_that_does_not_answer_is_a_problem(tools: Path, checkout: Path) -> None:
    docker(tools, up=False)
    finding = look(machine.check_docker, checkout)
    assert finding.status is Status.PROBLEM
    assert "Cannot connect" in finding.detail


@pytest.mark.parametrize(
    ("compose", "status"),
    [
        ("2.24.3", Status.PROBLEM),
        ("2.24.4", Status.OK),
        ("v2.26.1-4", Status.OK),
        ("5.0.0", Status.OK),
        ("", Status.PROBLEM),
    ],
)
def test_compose_must_know_reset(compose: str, status: Status, tools: Path, checkout: Path) -> None:
    docker(tools, compose=compose)
    assert look(machine.check_docker, checkout).status is status


def test_no_gpu_does_not_matter_unless_somebody_chose_one(checkout: Path) -> None:
    assert look(gpu.check_gpu, checkout).status is Status.NOT_APPLICABLE
    chosen = look(gpu.check_gpu, checkout, MODEL_CONFIG="tensorrt")
    assert chosen.status is Status.PROBLEM
    assert "compose.cpu.yml" in chosen.fix
    assert look(gpu.check_gpu, checkout, MODEL_CONFIG="cpu").status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("line", "release", "status", "words"),
    [
        (RTX, "26.05", Status.OK, "RTX 4090"),
        ("NVIDIA L4, 8.9, 580.95.05", "26.05", Status.WARNING, "older than 595.58.03"),
        ("NVIDIA L4, 8.9, 570.86.10", "26.05", Status.PROBLEM, "older than branch 580"),
        ("NVIDIA L4, 8.9, 575.51.03", "25.07", Status.OK, "L4"),
        ("NVIDIA L4, 8.9, 520.10.01", "25.07", Status.PROBLEM, "older than branch 525"),
        ("Tesla V100-SXM2-16GB, 7.0, 595.58.03", "26.05", Status.PROBLEM, "needs 7.5"),
        ("Tesla V100-SXM2-16GB, 7.0, 575.51.03", "25.07", Status.OK, "V100"),
        ("Tesla T4, 7.5, 595.58.03", "26.05", Status.OK, "T4"),
    ],
)
def test_gpu_and_driver_are_held_against_the_release(
    *, line: str, release: str, status: Status, words: str, tools: Path, checkout: Path
) -> None:
    nvidia_smi(tools, line)
    finding = look(gpu.check_gpu, checkout, NGC_RELEASE=release)
    assert finding.status is status
    assert words in finding.detail


def test_a_gpu_without_a_container_toolkit_is_a_problem_for_a_gpu_configuration(
    tools: Path, checkout: Path
) -> None:
    docker(tools)
    finding = look(gpu.check_toolkit, checkout, MODEL_CONFIG="onnx")
    assert finding.status is Status.PROBLEM
    assert "NVIDIA Container Toolkit" in finding.fix
    assert look(gpu.check_toolkit, checkout).status is Status.NOT_APPLICABLE


def test_a_toolkit_with_a_known_escape_is_a_warning(tools: Path, checkout: Path) -> None:
    docker(tools, runtimes='{"nvidia": {}, "runc": {}}')
    executable(tools / "nvidia-ctk", "#!/bin/sh\necho NVIDIA CLI version 1.17.4\n")
    assert "CVE-2025-23266" in look(gpu.check_toolkit, checkout).detail
    executable(tools / "nvidia-ctk", "#!/bin/sh\necho NVIDIA CLI version 1.18.0\n")
    assert gpu.check_toolkit(Project.load(checkout, {})) == []


def test_the_embedded_preflights_words_become_cause_and_fix(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise PreflightError("numpy 2.4.0: models would load: pip install -e '.[embedded]'")

    monkeypatch.setattr(embedded_mode, "check_machine", refuse)
    finding = look(embedded_mode.check_embedded, checkout)
    assert finding.detail == "numpy 2.4.0: models would load"
    assert finding.fix == "pip install -e '.[embedded]'"


def test_without_the_wheel_embedded_mode_does_not_apply(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_mode.importlib.util, "find_spec", lambda _: None)
    assert look(embedded_mode.check_embedded, checkout).status is Status.NOT_APPLICABLE


def test_a_problem_of_the_host_is_exit_code_1_and_in_the_json(checkout: Path, tools: Path) -> None:
    docker(tools, compose="2.20.0")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/doctor.py"), "--json", "--project", str(checkout)],
        env={"PATH": str(tools), **ports()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found = {entry["check"]: entry for entry in json.loads(done.stdout)}
    assert found["Docker and Compose"]["status"] == "problem"
    assert found["Docker and Compose"]["fix"] == "update Compose to 2.24.4 or newer"
    assert found["ports"]["status"] == "ok"


def test_the_table_shows_cause_and_fix(checkout: Path, tools: Path) -> None:
    docker(tools, compose="2.20.0")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/doctor.py"), "--project", str(checkout)],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "update Compose to 2.24.4 or newer" in done.stdout
    assert "Traceback" not in done.stderr
