"""Releases under traffic: no request fails, each is answered by one release, both ways."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import requests
from releasing_server import PICTURE, Stage, stage
from small_pipeline import jpeg, text, write_candidate
from steady_load import Answer, SteadyLoad

SHIFT = 7
# The tool's own part of the way from the command to the new version's first answer.
OWN_SECONDS = 10.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    handler = signal.getsignal(signal.SIGTERM)
    with stage(tmp_path_factory.mktemp("releases")) as running:
        yield running
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def fresh(served: Stage) -> Iterator[Stage]:
    """The served pipeline, back at version 1 afterwards."""
    yield served
    while served.versions("inference") != [1]:
        assert served.run("rollback") == 0


def new_labels(served: Stage, folder: Path, prefix: str = "new ") -> list[str]:
    """--labels and --groups with every name changed."""
    live = served.repository / "resnet50_postprocess" / "1"
    options = []
    for language in ("en", "zh"):
        names = json.loads((live / f"labels_{language}.json").read_text(encoding="utf-8"))
        file = folder / f"{language}.json"
        file.write_text(json.dumps([prefix + name for name in names]), encoding="utf-8")
        options.append(f"--labels={language}={file}")
    return [*options, f"--groups={live / 'groups.json'}"]


def kinds(answers: list[Answer]) -> list[str]:
    """What each request was answered with, by sending time; its images must agree."""
    found = []
    for answer in sorted(answers, key=lambda a: a.sent_s):
        assert answer.status == 200, answer.text
        best = {(r["predictions"][0]["class_id"], r["predictions"][0]["class"])
                for r in answer.results}  # fmt: skip
        assert len(best) == 1, f"one request, several releases: {best}"
        class_id, name = best.pop()
        found.append(f"{class_id} {name}")
    return found


def require_one_switch(answers: list[Answer]) -> tuple[str, str]:
    """(old, new): nothing sent after a new answer had arrived got an old one."""
    found = kinds(answers)
    ordered = sorted(answers, key=lambda a: a.sent_s)
    old, new = found[0], found[-1]
    assert old != new
    assert set(found) == {old, new}, "some answer mixes weights and labels"
    first_new_s = min(a.answered_s for a, kind in zip(ordered, found) if kind == new)
    last_old_s = max(a.sent_s for a, kind in zip(ordered, found) if kind == old)
    assert last_old_s <= first_new_s
    return old, new


def test_publish_and_rollback_with_labels_fail_and_mix_no_request(
    fresh: Stage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    candidate = write_candidate(tmp_path / "next", SHIFT)
    before_id, before_name = fresh.best()
    options = new_labels(fresh, tmp_path)
    with SteadyLoad(fresh.server.http_url, [PICTURE] * 3, parameters={"top_k": 1}) as there:
        there.wait_for(20)
        assert fresh.run("publish", candidate, "--force", "renamed classes", *options) == 0
        there.wait_for(20)
    old, new = require_one_switch(there.answers)
    assert old == f"{before_id} {before_name}"
    assert re.fullmatch(rf"{before_id + SHIFT} new .+", new)
    assert fresh.versions("inference") == fresh.versions("postprocess")
    newest = fresh.versions("inference")[-1]
    assert fresh.loaded("inference") == fresh.loaded("postprocess") == [newest]

    with SteadyLoad(fresh.server.http_url, [PICTURE] * 3, parameters={"top_k": 1}) as back:
        back.wait_for(20)
        assert fresh.run("rollback", "--reason", "only a test") == 0
        back.wait_for(20)
    assert require_one_switch(back.answers) == (new, old)
    assert fresh.versions("inference") == fresh.versions("postprocess") == [1]
    assert fresh.loaded("inference") == fresh.loaded("postprocess") == [1]
    print(capfd.readouterr().err)


def test_the_tool_itself_takes_at_most_ten_seconds_and_says_so(
    fresh: Stage, tmp_path: Path
) -> None:
    candidate = write_candidate(tmp_path / "next", noise=0.01)
    with SteadyLoad(fresh.server.http_url, [PICTURE]) as load:
        process = fresh.process("publish", candidate, "--json")
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert {answer.status for answer in load.answers} == {200}
    record = json.loads(stdout)
    assert record["own_s"] <= OWN_SECONDS
    assert record["own_s"] == pytest.approx(record["answering_s"] - record["loading_s"], abs=0.11)
    done = fresh.process("versions")
    shown, _ = done.communicate(timeout=60)
    assert done.returncode == 0
    assert re.search(r"\b2?\d\b.*│ yes", shown)


def test_every_step_reports_its_seconds_on_stderr(
    fresh: Stage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    candidate = write_candidate(tmp_path / "next", noise=0.01)
    assert fresh.run("publish", candidate) == 0
    out, err = capfd.readouterr()
    steps = re.findall(r"^publish: \[(\d)/8\] .*[,:] \d+\.\d s$", err, re.MULTILINE)
    assert [int(number) for number in steps] == list(range(1, 9))
    assert re.search(r"version \d+ answers, [\d.]+ s after the command: [\d.]+ s of loading", err)
    assert "released" in out


def test_the_record_holds_hashes_figures_and_the_reason_and_feeds_the_metric(
    fresh: Stage, tmp_path: Path
) -> None:
    candidate = write_candidate(tmp_path / "next", SHIFT, name="retrained")
    assert fresh.run("publish", candidate) == 1
    metric = fresh.folder / ".releases" / "resnet50.prom"
    assert 'pipeline_release_success{pipeline="resnet50"} 0' in metric.read_text()
    assert fresh.run("publish", candidate, "--force", "other classes") == 0
    assert 'pipeline_release_success{pipeline="resnet50"} 1' in metric.read_text()
    lines = (fresh.folder / ".releases" / "resnet50.jsonl").read_text().splitlines()
    failed, released = (json.loads(line) for line in lines[-2:])
    assert failed["outcome"] == "failed"
    assert "at least 80% are needed" in failed["reason"]
    assert released["forced"] == "other classes"
    assert released["weights"] == "retrained"
    assert len(released["onnx_sha256"]) == 64
    assert released["comparison"]["agreement"] == 0
    assert released["comparison"]["images"] >= 3


def test_a_rolled_back_number_is_never_used_again(fresh: Stage, tmp_path: Path) -> None:
    candidate = write_candidate(tmp_path / "next", noise=0.01)
    assert fresh.run("publish", candidate) == 0
    first = fresh.versions("inference")[-1]
    assert fresh.run("rollback") == 0
    assert fresh.run("publish", candidate) == 0
    assert fresh.versions("inference")[-1] > first


def test_only_the_last_versions_and_the_first_stay(fresh: Stage, tmp_path: Path) -> None:
    numbers = []
    for step in range(3):
        candidate = write_candidate(tmp_path / str(step), noise=0.01 * (step + 1))
        assert fresh.run("publish", candidate, "--keep", 2) == 0
        numbers.append(fresh.versions("inference")[-1])
    assert fresh.versions("inference") == [1, *numbers[-2:]]
    assert fresh.loaded("inference") == numbers[-1:]


def test_weights_in_a_side_file_are_published_as_one_file(fresh: Stage, tmp_path: Path) -> None:
    import onnx
    from small_pipeline import network

    file = tmp_path / "split.onnx"
    onnx.save(network(noise=0.01), file, save_as_external_data=True, location="split.onnx.data",
              size_threshold=0)  # fmt: skip
    assert fresh.run("publish", file, "--same-recipe") == 0
    newest = fresh.repository / "resnet50_inference" / str(fresh.versions("inference")[-1])
    assert sorted(path.name for path in newest.iterdir()) == ["manifest.json", "model.onnx"]


def test_the_build_on_the_dashboards_follows_the_release(fresh: Stage, tmp_path: Path) -> None:
    candidate = write_candidate(tmp_path / "next", noise=0.01, name="second weights")
    assert fresh.run("publish", candidate) == 0

    def processes(weights: str) -> str:
        page = requests.get(fresh.server.metrics_url, timeout=10).text
        return re.findall(rf'^pipeline_build_info\{{.*weights="{weights}".*\}} (\d+)', page, re.M)[
            0
        ]

    # The old preprocess process counts until its last request has left it.
    deadline = time.monotonic() + 10
    while processes("first") != "0" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (processes("first"), processes("second weights")) == ("0", "1")


@pytest.mark.parametrize("stage_name", ["preprocess", "postprocess", "inference"])
def test_loading_a_step_anew_under_traffic_drops_no_request(fresh: Stage, stage_name: str) -> None:
    """In-flight requests end on the old process, also those in preprocess' thread pool."""
    from releasing.server import Server

    slow = text(jpeg((40, 90, 160), (3000, 2000)))
    folder = fresh.repository / f"resnet50_{stage_name}"
    server = Server(fresh.server.grpc_address, fresh.server.admin_key)
    with SteadyLoad(fresh.server.http_url, [slow, PICTURE], clients=6) as load:
        for _ in range(2):
            load.wait_for(12)
            for file in (folder / "1").glob("model.*"):
                file.touch()
            server.load(folder.name)
        load.wait_for(12)
    server.close()
    assert {answer.status for answer in load.answers} == {200}


def test_requests_that_wait_in_preprocess_survive_its_replacement(fresh: Stage) -> None:
    """More is waiting than the pool can do at once when the old process is told to end."""
    from releasing.server import Server

    slow = text(jpeg((40, 90, 160), (2400, 1800)))
    server = Server(fresh.server.grpc_address, fresh.server.admin_key)
    with SteadyLoad(fresh.server.http_url, [slow] * 4, clients=12) as load:
        load.wait_for(12)
        (fresh.repository / "resnet50_preprocess" / "1" / "model.py").touch()
        server.load("resnet50_preprocess")
        load.wait_for(24)
    server.close()
    assert {answer.status for answer in load.answers} == {200}


def test_steps_are_loaded_side_by_side_while_the_candidate_is_checked(
    fresh: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from releasing import shadow

    seen = []
    genuine = shadow.require_same

    def spy(*arguments: object) -> None:
        seen.append((fresh.loaded("inference"), fresh.best()))
        genuine(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(shadow, "require_same", spy)
    before = fresh.best()
    candidate = write_candidate(tmp_path / "next", SHIFT)
    assert fresh.run("publish", candidate, "--force", "test") == 0
    [(loaded, answer)] = seen
    assert loaded == [1, fresh.versions("inference")[-1]]
    assert answer == before, "the candidate answers clients before it was checked"
    assert fresh.best() != before


def test_labels_of_the_old_release_come_back_with_it(fresh: Stage, tmp_path: Path) -> None:
    names = []
    for prefix in ("second ", "third "):
        folder = tmp_path / prefix.strip()
        candidate = write_candidate(folder, noise=0.01)
        assert fresh.run("publish", candidate, *new_labels(fresh, folder, prefix)) == 0
        names.append(fresh.best()[1])
    assert [name.split()[0] for name in names] == ["second", "third"]
    assert fresh.run("rollback") == 0
    assert fresh.best()[1] == names[0]
    for earlier, later in pairwise(fresh.versions("postprocess")):
        assert earlier < later


def test_a_server_that_starts_anew_serves_the_newest_release(tmp_path: Path) -> None:
    with stage(tmp_path) as running:
        candidate = write_candidate(tmp_path / "next", SHIFT)
        options = new_labels(running, tmp_path)
        assert running.run("publish", candidate, "--force", "test", *options) == 0
        answer = running.best()
    shutil.rmtree(tmp_path / ".staging", ignore_errors=True)
    from embedded import EmbeddedServer

    with EmbeddedServer(tmp_path / "models") as again:
        assert Stage(again, tmp_path, ()).best() == answer
