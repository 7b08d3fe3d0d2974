"""scripts/demo.py from beginning to end: real answers, a clean stop, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from rich.console import Console

from client import connect
from common import manifest
from demonstration import answers, curl, photographs, pipelines
from demonstration.steps import DemoError
from embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
# With both exports up to date.
SECOND_RUN_LIMIT_S = 60
# What EfficientNet-Lite0's best label may be, in English.
EXPECTED = {
    "cat": {"tabby", "tiger cat", "Egyptian cat"},
    "coffee": {"espresso", "cup"},
    "rocket": {"missile", "projectile"},
    "flower": {"daisy"},
    "temple": {"palace"},
}
CAT_CLASS_IDS = {281, 282, 285}


@dataclass(frozen=True)
class Run:
    """What one run of the script left."""

    pid: int
    exit_code: int
    stdout: str
    stderr: str
    duration_s: float


def demo(*arguments: str, **environment: str) -> Run:
    """Run the script to its end; it must not leave a traceback."""
    started = time.monotonic()
    command = [sys.executable, str(ROOT / "scripts" / "demo.py"), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        encoding="utf-8",
    )
    try:
        stdout, stderr = process.communicate(timeout=600)
    finally:
        process.kill()
    assert "Traceback" not in stderr, stderr
    return Run(process.pid, process.returncode, stdout, stderr, time.monotonic() - started)


def shared_memory_of(pid: int) -> list[str]:
    return [name for name in os.listdir("/dev/shm") if name.startswith(f"triton_embedded_{pid}_")]


@pytest.fixture(scope="module")
def prepared() -> None:
    """Both exports up to date, whatever an older checkout has left."""
    run = demo("--prepare")
    assert run.exit_code == 0, run.stderr
    assert run.stdout == ""


@pytest.fixture(scope="module")
def as_json(prepared: None) -> Run:
    return demo("--json")


@pytest.fixture(scope="module")
def found(as_json: Run) -> dict[str, Any]:
    assert as_json.exit_code == 0, as_json.stderr
    answer: dict[str, Any] = json.loads(as_json.stdout)
    return answer


def labels_of(found: dict[str, Any], pipeline: str) -> dict[str, list[dict[str, Any]]]:
    (shown,) = (p for p in found["pipelines"] if p["name"] == pipeline)
    return {answer["picture"]: answer["labels"] for answer in shown["answers"]}


def test_real_weights_name_what_the_photographs_show(found: dict[str, Any]) -> None:
    labels = labels_of(found, pipelines.EFFICIENTNET)
    assert len(labels) == 6
    for picture, expected in EXPECTED.items():
        assert labels[picture][0]["names"]["en"] in expected


def test_every_label_comes_in_both_languages_with_a_confidence(found: dict[str, Any]) -> None:
    for name in pipelines.TITLES:
        for labels in labels_of(found, name).values():
            confidences = [label["confidence"] for label in labels]
            assert len(labels) == answers.TOP_K
            assert confidences == sorted(confidences, reverse=True)
            assert all(label["names"]["en"].isascii() for label in labels)
            assert not any(label["names"]["zh"].isascii() for label in labels)


def test_weights_are_those_of_the_manifests_and_real_ones_come_first(found: dict[str, Any]) -> None:
    for shown in found["pipelines"]:
        folder = pipelines.REPOSITORY / f"{shown['name']}_inference" / "1"
        made = manifest.read(folder)
        assert (shown["weights"], shown["meaningful"]) == (
            made["weights"]["name"],
            made["meaningful"],
        )
    assert found["pipelines"][0]["meaningful"] is True


def test_a_broken_picture_gets_its_code_beside_good_ones(found: dict[str, Any]) -> None:
    before, broken, after = found["one_broken"]
    assert broken["error"] == "CORRUPT_IMAGE"
    assert broken["message"]
    assert "predictions" in before["result"]
    assert "predictions" in after["result"]


def test_curl_gets_the_cats_labels(found: dict[str, Any]) -> None:
    predictions = json.loads(found["curl"]["reply"]["OUTPUT_RESULTS"])["predictions"]
    assert len(predictions) == 3
    assert predictions[0]["class_id"] in CAT_CLASS_IDS


def test_a_second_run_is_quick_and_leaves_nothing_behind(as_json: Run) -> None:
    assert as_json.exit_code == 0, as_json.stderr
    assert as_json.duration_s < SECOND_RUN_LIMIT_S
    assert shared_memory_of(as_json.pid) == []
    (address,) = (word for word in as_json.stderr.split() if word.startswith("http://127.0.0.1:"))
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{address.rstrip(',')}/v2/health/live", timeout=2)


def test_people_get_tables_a_line_to_paste_and_seconds_per_step(prepared: None) -> None:
    run = demo(PYTHONIOENCODING="utf-8")
    assert run.exit_code == 0, run.stderr
    assert max(map(_cells, run.stdout.splitlines()[:-4])) <= 100
    for text in (
        "虎斑猫",
        "espresso",
        "CORRUPT_IMAGE",
        curl.command("efficientnet_lite0_ensemble"),
    ):
        assert text in run.stdout
    for pipeline in pipelines.served():
        assert pipeline.title in run.stdout
    for step in ("[1/7]", "[4/7] start tritonserver: http://", "[7/7] stop tritonserver: "):
        assert step in run.stderr


def _cells(line: str) -> int:
    return Console().render_str(line, markup=False, highlight=False).cell_len


def test_a_terminal_without_utf8_gets_the_english_labels(prepared: None) -> None:
    run = demo(PYTHONIOENCODING="ascii", COLUMNS="80")
    assert run.exit_code == 0, run.stderr
    assert run.stdout.isascii()
    assert "espresso" in run.stdout
    assert "Chinese labels are left out" in run.stderr


def test_random_weights_are_marked_as_meaningless() -> None:
    shown = pipelines.ServedPipeline(pipelines.RESNET50, "random:0", False)
    assert shown.title == "ResNet50, weights random:0 (random weights: labels are meaningless)"


def test_a_signal_stops_the_server_too(prepared: None) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "scripts" / "demo.py")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        address = ""
        for line in process.stderr:
            if "start tritonserver: http" in line:
                address = line.split()[4].rstrip(",")
                break
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.stderr.close()
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert shared_memory_of(process.pid) == []
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{address}/v2/health/live", timeout=2)


def test_the_line_to_paste_works_in_bash_and_sh_with_a_large_picture(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    # Far above 128 KiB, where a program's argument would be cut off.
    large = tmp_path / "large.png"
    large.write_bytes(photographs.load()[1].data)
    assert large.stat().st_size > 300_000
    line = curl.command(f"{pipelines.EFFICIENTNET}_ensemble").replace(curl.PICTURE, str(large))
    environment = {
        **os.environ,
        "HTTP_PORT": str(server.ports["http"]),
        "no_proxy": "127.0.0.1",
    }
    for shell in ("sh", "bash"):
        done = subprocess.run(
            [shell, "-c", line], env=environment, capture_output=True, timeout=60, check=True
        )
        assert "espresso" in curl.checked(done.stdout.decode())


def test_without_curl_the_same_question_goes_through_requests(
    server: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ensemble, port = f"{pipelines.EFFICIENTNET}_ensemble", server.ports["http"]
    with_curl = curl.run(ensemble, port)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert curl.run(ensemble, port) == with_curl
    assert "asking with requests instead" in capsys.readouterr().err


def test_an_answer_without_predictions_is_a_failure_with_exit_code_1(
    server: EmbeddedServer,
) -> None:
    for text in ('{"error": "no such model"}', "<html>", '{"OUTPUT_RESULTS": "{}"}', "[]"):
        with pytest.raises(DemoError) as raised:
            curl.checked(text)
        assert raised.value.exit_code == 1
    text_files = [photographs.Photograph("text", b"no picture!")]
    with (
        connect(server.http_url, model=f"{pipelines.EFFICIENTNET}_ensemble") as classifier,
        pytest.raises(DemoError, match="INVALID_BASE64"),
    ):
        answers.ask(classifier, text_files)
