"""What the stack does not let anyone do, seen on the running containers."""

from __future__ import annotations

import grpc
import pytest
import requests
from compose_stack import Stack
from tritonclient.grpc import service_pb2, service_pb2_grpc

LONG_RUNNING = ("triton", "prometheus", "grafana")
UIDS = {"triton": 1000, "prometheus": 65534, "grafana": 472}


def status_field(stack: Stack, service: str, field: str) -> list[str]:
    """A field of /proc/PID/status of every process in the container, read from this host."""
    values = []
    for pid in stack.processes(service):
        with open(f"/proc/{pid}/status") as file:
            line = next(line for line in file if line.startswith(field + ":"))
            values.append(line.split(":")[1].strip())
    assert values
    return values


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_no_process_holds_a_capability(stack: Stack, service: str) -> None:
    for field in ("CapEff", "CapPrm", "CapBnd"):
        assert {int(value, 16) for value in status_field(stack, service, field)} == {0}


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_no_process_can_gain_privileges(stack: Stack, service: str) -> None:
    assert set(status_field(stack, service, "NoNewPrivs")) == {"1"}


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_every_process_runs_under_its_own_user_and_never_root(stack: Stack, service: str) -> None:
    uids = {int(uid) for value in status_field(stack, service, "Uid") for uid in value.split()}
    assert uids == {UIDS[service]}


@pytest.mark.parametrize("service", (*LONG_RUNNING, "export"))
def test_the_root_file_system_is_read_only(stack: Stack, service: str) -> None:
    assert stack.inspect(service)["HostConfig"]["ReadonlyRootfs"]


def test_the_server_can_write_neither_its_root_nor_the_models_nor_common(stack: Stack) -> None:
    for folder in ("/opt/tritonserver", "/models/resnet50_preprocess/1", "/opt/bundle/common"):
        done = stack.compose("exec", "-T", "triton", "touch", f"{folder}/probe", check=False)
        assert done.returncode != 0
        assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_nothing_is_published_beyond_this_host(stack: Stack, service: str) -> None:
    published = stack.inspect(service)["NetworkSettings"]["Ports"]
    hosts = {binding["HostIp"] for bindings in published.values() for binding in bindings or []}
    assert hosts == {"127.0.0.1"}


def test_bind_address_is_the_one_way_to_open_the_ports(stack: Stack) -> None:
    config = stack.compose("config", BIND_ADDRESS="192.0.2.7").stdout
    assert config.count("host_ip: 192.0.2.7") == 5
    assert "host_ip: 127.0.0.1" not in config


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/resnet50_ensemble/unload"),
        ("POST", "/v2/repository/models/resnet50_preprocess/load"),
    ],
)
def test_the_repository_api_is_refused_without_the_key(
    stack: Stack, method: str, path: str
) -> None:
    url = stack.url("HTTP_PORT", path)
    for headers in ({}, {"triton-admin-key": "wrong"}, {"triton-admin-key": ""}):
        assert requests.request(method, url, headers=headers, timeout=5).status_code == 403


def test_the_repository_api_obeys_the_key(stack: Stack) -> None:
    headers = {"triton-admin-key": stack.secret("triton_admin_key")}
    reply = requests.post(
        stack.url("HTTP_PORT", "/v2/repository/index"), headers=headers, timeout=5
    )
    assert reply.status_code == 200
    states = {model["name"]: model["state"] for model in reply.json()}
    assert states["resnet50_ensemble"] == "READY"


def test_the_repository_api_is_locked_on_grpc_too(stack: Stack) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['GRPC_PORT']}") as channel:
        service = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.RepositoryIndexRequest()
        with pytest.raises(grpc.RpcError) as refused:
            service.RepositoryIndex(request, timeout=5)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        key = ("triton-grpc-protocol-triton-admin-key", stack.secret("triton_admin_key"))
        assert service.RepositoryIndex(request, timeout=5, metadata=[key]).models


def test_inference_and_health_need_no_key(stack: Stack, photograph: bytes) -> None:
    assert stack.infer(photograph).status_code == 200
    assert requests.get(stack.url("HTTP_PORT", "/v2/health/ready"), timeout=5).status_code == 200


def test_grafana_wants_the_password_of_the_secret(stack: Stack) -> None:
    url = stack.url("GRAFANA_PORT", "/api/search")
    assert requests.get(url, timeout=5).status_code == 401
    assert requests.get(url, auth=("admin", "admin"), timeout=5).status_code == 401
    password = stack.secret("grafana_admin_password")
    assert requests.get(url, auth=("admin", password), timeout=5).status_code == 200


def test_each_secret_is_mounted_only_where_it_is_used(stack: Stack) -> None:
    assert stack.exec("triton", "ls", "/run/secrets").split() == ["triton_admin_key"]
    mounts = [mount["Destination"] for mount in stack.inspect("grafana")["Mounts"]]
    assert [path for path in mounts if "secrets" in path] == ["/run/secrets/grafana_admin_password"]


def test_the_export_job_does_not_see_the_secrets_of_its_checkout(stack: Stack) -> None:
    done = stack.compose(
        "run", "--rm", "--no-deps", "-T", "--user", "0:0", "--entrypoint", "", "export",
        "ls", "-A", "/opt/bundle/secrets",
    )  # fmt: skip
    assert done.stdout.strip() == ""


def test_no_secret_stands_in_the_container_configuration_or_the_logs(stack: Stack) -> None:
    for service in LONG_RUNNING:
        visible = str(stack.inspect(service)) + stack.logs(service)
        for name in ("triton_admin_key", "grafana_admin_password"):
            assert stack.secret(name) not in visible
