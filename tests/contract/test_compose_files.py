"""The Compose files, images and shell scripts agree with each other and with .env.example."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

PROJECT_ROOT = Path(__file__).resolve().parents[2]
BASE = PROJECT_ROOT / "docker-compose.yml"
CPU = PROJECT_ROOT / "compose.cpu.yml"
ENV_EXAMPLE = PROJECT_ROOT / ".env.example"
ENGINE = PROJECT_ROOT / "tests/compose/engine.sh"
ENGINE_DIR = Path(os.environ.get("ENGINE_DIR", "/tmp/rtb-engine"))
DOCKERFILES = ("Dockerfile.triton", "Dockerfile.trt")
MIB = 1024**2
# What a variable means without a value in a Compose file is written in a Dockerfile or in pip.
WITHOUT_DEFAULT = {"PIP_INDEX_URL", "TORCH_INDEX_URL"}


@pytest.fixture(scope="module")
def compose_binary() -> list[str]:
    """Docker Compose: the host's, or the private engine's."""
    if shutil.which("docker"):
        has_plugin = subprocess.run(
            ["docker", "compose", "version"], capture_output=True, check=False
        )
        if has_plugin.returncode == 0:
            return ["docker", "compose"]
    fetched = subprocess.run(
        [ENGINE, "fetch"], capture_output=True, text=True, timeout=300, check=False
    )
    if fetched.returncode == 3:
        pytest.skip(f"no Docker Compose here: {fetched.stderr.strip()}")
    assert fetched.returncode == 0, fetched.stderr
    return [str(ENGINE_DIR / "root/usr/libexec/docker/cli-plugins/docker-compose")]


def configuration(binary: list[str], *files: Path, env_file: Path | str = "/dev/null") -> Any:
    """The merged files as Compose understands them, without this host's own settings."""
    flags = [flag for file in files for flag in ("--file", str(file))]
    done = subprocess.run(
        [*binary, *flags, "--env-file", str(env_file), "--profile", "*", "config", "--format=json"],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "is not set" not in done.stderr, done.stderr
    return json.loads(done.stdout)


def devices(service: dict[str, Any]) -> list[dict[str, Any]]:
    """The GPUs that a service reserves."""
    resources = service.get("deploy", {}).get("resources", {})
    return resources.get("reservations", {}).get("devices") or []


def test_the_gpu_file_parses_and_reserves_a_gpu_for_export_and_triton(compose_binary: Any) -> None:
    services = configuration(compose_binary, BASE)["services"]
    for name in ("export", "triton"):
        (device,) = devices(services[name])
        assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])


def test_the_cpu_override_drops_the_gpu_and_nothing_else(compose_binary: Any) -> None:
    gpu, cpu = configuration(compose_binary, BASE), configuration(compose_binary, BASE, CPU)
    for name in ("export", "triton"):
        assert devices(cpu["services"][name]) == []
        assert cpu["services"][name]["environment"]["MODEL_CONFIG"] == "cpu"
        for key in ("deploy", "environment", "ulimits"):
            gpu["services"][name].pop(key, None)
            cpu["services"][name].pop(key, None)
    assert cpu == gpu


def test_the_values_of_env_example_are_the_defaults(compose_binary: Any) -> None:
    assert configuration(compose_binary, BASE, env_file=ENV_EXAMPLE) == configuration(
        compose_binary, BASE
    )


def test_every_knob_of_the_compose_files_stands_in_env_example() -> None:
    used = set(re.findall(r"\$\{(\w+)", BASE.read_text() + CPU.read_text())) | WITHOUT_DEFAULT
    documented = set(re.findall(r"^#? ?(\w+)=", ENV_EXAMPLE.read_text(), re.MULTILINE))
    assert used <= documented, used - documented


def test_a_commented_out_knob_of_env_example_shows_its_default(
    compose_binary: Any, tmp_path: Path
) -> None:
    active = re.sub(
        r"^# (\w+_IMAGE|SHM_SIZE|PROMETHEUS_RETENTION|ALERTMANAGER_PORT)=",
        r"\1=",
        ENV_EXAMPLE.read_text(),
        flags=re.MULTILINE,
    )
    (tmp_path / "env").write_text(active)
    assert configuration(compose_binary, BASE, env_file=tmp_path / "env") == configuration(
        compose_binary, BASE
    )


def test_every_image_has_an_exact_tag_and_a_knob_for_mirrors(compose_binary: Any) -> None:
    services = configuration(compose_binary, BASE)["services"]
    for name, service in services.items():
        assert re.search(r":v?\d+\.\d+", service["image"]), f"{name}: {service['image']}"
    tags = {services[name]["build"]["args"]["TRITON_IMAGE"] for name in ("export", "triton")}
    assert len(tags) == 1, "export and triton must be built from one NGC release"
    text = BASE.read_text()
    for line in re.findall(r"image: (?!resnet50-triton/)(.+)", text):
        assert line.startswith("${"), line


def test_one_variable_moves_both_images_to_another_ngc_release(
    compose_binary: Any, tmp_path: Path
) -> None:
    (tmp_path / "env").write_text("NGC_RELEASE=26.08\n")
    services = configuration(compose_binary, BASE, env_file=tmp_path / "env")["services"]
    for name in ("export", "triton"):
        assert services[name]["build"]["args"]["TRITON_IMAGE"].endswith("tritonserver:26.08-py3")
        assert services[name]["image"].endswith(":26.08")


def test_every_service_is_hardened(compose_binary: Any) -> None:
    for name, service in configuration(compose_binary, BASE)["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}, name
        if name != "dcgm-exporter":
            assert service["read_only"] is True, name
            assert "cap_add" not in service, name


def test_ports_are_published_on_this_host_only(compose_binary: Any) -> None:
    for name, service in configuration(compose_binary, BASE)["services"].items():
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", name


def test_stopping_takes_longer_than_the_server_needs_to_exit(compose_binary: Any) -> None:
    triton = configuration(compose_binary, BASE)["services"]["triton"]
    (flag,) = [flag for flag in triton["command"] if flag.startswith("--exit-timeout-secs=")]
    assert int(flag.split("=")[1]) < int(triton["stop_grace_period"].removesuffix("s"))
    assert triton["init"] is True
    assert triton["restart"] == "unless-stopped"


def test_shared_memory_follows_from_the_limits(compose_binary: Any) -> None:
    triton = configuration(compose_binary, BASE)["services"]["triton"]
    (region,) = [
        int(flag.rsplit("=", 1)[1]) for flag in triton["command"] if "shm-default-byte-size" in flag
    ]
    largest_request, growth_slack, preprocess_stubs, stubs = 64 * MIB, 2, 4, 16
    needed = largest_request * growth_slack * preprocess_stubs + region * stubs
    assert int(triton["shm_size"]) >= needed


def test_the_flags_are_known_to_the_embedded_server() -> None:
    import pytriton

    package = Path(pytriton.__file__).parent
    server = package / "tritonserver/bin/tritonserver"
    libraries = package.parent / "nvidia_pytriton.libs"
    known = subprocess.run(
        [server, "--help"], capture_output=True, text=True, timeout=60, check=False,
        env={"LD_LIBRARY_PATH": f"{sys.base_prefix}/lib:{libraries}"},
    )  # fmt: skip
    text = known.stdout + known.stderr
    for flag in yaml.safe_load(BASE.read_text())["services"]["triton"]["command"][1:]:
        assert re.search(rf"^  {flag.split('=')[0]}(?=[\s|])", text, re.MULTILINE), flag


def test_prometheus_scrapes_the_names_and_ports_of_the_services(compose_binary: Any) -> None:
    services = configuration(compose_binary, BASE)["services"]
    jobs = yaml.safe_load((PROJECT_ROOT / "prometheus/prometheus.yml").read_text())[
        "scrape_configs"
    ]
    targets = {
        t for job in jobs for group in job.get("static_configs", []) for t in group["targets"]
    }
    assert "triton:8002" in targets
    published = {port["target"] for port in services["triton"]["ports"]}
    assert published == {8000, 8001, 8002}
    for example in (PROJECT_ROOT / "prometheus/targets").glob("*.example"):
        (group,) = yaml.safe_load(example.read_text())
        targets |= set(group["targets"])
    assert {target.split(":")[0] for target in targets} - {"localhost"} <= set(services)


def test_grafana_finds_its_provisioning_and_dashboards_where_they_are_mounted(
    compose_binary: Any,
) -> None:
    services = configuration(compose_binary, BASE)["services"]
    mounts = {v["target"]: v["source"] for v in services["grafana"]["volumes"]}
    providers = yaml.safe_load(
        (PROJECT_ROOT / "grafana/provisioning/dashboards/dashboards.yml").read_text()
    )
    for provider in providers["providers"]:
        assert Path(mounts[provider["options"]["path"]]) == PROJECT_ROOT / "grafana/dashboards"


def test_the_canary_is_an_image_for_the_ensembles_input() -> None:
    (tensor,) = json.loads((PROJECT_ROOT / "docker/triton/canary.json").read_text())["inputs"]
    assert (tensor["name"], tensor["datatype"], tensor["shape"]) == ("RAW_IMAGE", "BYTES", [1, 1])
    image = Image.open(io.BytesIO(base64.b64decode(tensor["data"][0], validate=True)))
    assert (image.format, image.size) == ("JPEG", (64, 64))


def test_the_healthcheck_fits_into_its_timeout(compose_binary: Any) -> None:
    script = (PROJECT_ROOT / "docker/triton/healthcheck.sh").read_text()
    (canary_s,) = re.findall(r"^canary_timeout_s=(\d+)", script, re.MULTILINE)
    timeout = configuration(compose_binary, BASE)["services"]["triton"]["healthcheck"]["timeout"]
    ensembles, reap_s, metrics_s = 2, 1, 4
    assert ensembles * int(canary_s) + reap_s + metrics_s <= int(timeout.removesuffix("s"))


def test_the_compose_file_stays_readable() -> None:
    assert len(BASE.read_text().splitlines()) <= 150


@pytest.mark.parametrize("name", DOCKERFILES)
def test_hadolint_finds_nothing(name: str) -> None:
    run_linter("hadolint", "--ignore", "DL3013", name)


def test_shellcheck_finds_nothing() -> None:
    scripts = [str(p) for p in PROJECT_ROOT.glob("docker/**/*.sh")]
    scripts += [str(p) for p in PROJECT_ROOT.glob("tests/compose/**/*.sh")]
    assert len(scripts) >= 5
    run_linter("shellcheck", *scripts)


def test_yamllint_finds_nothing() -> None:
    rules = "document-start: disable, line-length: {max: 160}, braces: {max-spaces-inside: 1}, "
    rules += "comments: {min-spaces-from-content: 1}"
    settings = f"{{extends: default, rules: {{{rules}}}}}"
    run_linter("yamllint", "--strict", "-d", settings, BASE.name, CPU.name, "tests/compose/ci.yml")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_can_be_built_behind_a_mirror(name: str) -> None:
    text = (PROJECT_ROOT / name).read_text()
    assert "# syntax=" not in text, "would be fetched from a registry"
    assert re.findall(r"^FROM (.+)$", text, re.MULTILINE) == ["${TRITON_IMAGE}"]


def run_linter(*command: str) -> None:
    """Run a linter from this environment in the project; its findings fail the test."""
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [program, *command[1:]], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
