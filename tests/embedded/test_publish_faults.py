"""Whatever goes wrong in a release, the old version keeps serving and one line says why."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from releasing_server import Stage, stage
from small_pipeline import RECIPE, network, write_candidate

import publish
from releasing import smoke, traffic
from releasing.versions import Versions

SHIFT = 7
FORCE = ("--force", "a test")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    handler = signal.getsignal(signal.SIGTERM)
    with stage(tmp_path_factory.mktemp("faults")) as running:
        yield running
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module")
def answer(served: Stage) -> tuple[int, str]:
    """What version 1 says to one picture."""
    return served.best()


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    """A good one, whose answers differ from version 1's on every picture."""
    return write_candidate(tmp_path / "candidate", SHIFT)


Expect = Callable[..., None]


@pytest.fixture
def still(served: Stage, answer: tuple[int, str], capfd: pytest.CaptureFixture[str]) -> Expect:
    """Checks that version 1 alone is on disk, loaded and answering, and why in one line."""

    def check(*reasons: str) -> None:
        error = capfd.readouterr().err.strip()
        assert "Traceback" not in error
        last = error.splitlines()[-1] if error else ""
        for reason in reasons:
            assert reason in last, error
        assert served.best() == answer
        assert served.versions("inference") == served.versions("postprocess") == [1]
        assert served.loaded("inference") == served.loaded("postprocess") == [1]
        assert not (served.folder / ".releases" / "resnet50.unfinished.json").exists()
        assert not list((served.folder / ".staging").glob("*"))

    return check


def test_a_file_that_is_no_onnx(served: Stage, still: Expect, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"<html>404</html>")
    assert served.run("publish", file) == 1
    still("is no ONNX file", "export it again")


def test_a_file_that_is_cut_short(served: Stage, still: Expect, candidate: Path) -> None:
    candidate.write_bytes(candidate.read_bytes()[:-400])
    assert served.run("publish", candidate) == 1
    still("ONNX")


def test_a_missing_file(served: Stage, still: Expect, tmp_path: Path) -> None:
    assert served.run("publish", tmp_path / "nothing.onnx") == 1
    still("does not exist")


def test_a_missing_side_file(served: Stage, still: Expect, tmp_path: Path) -> None:
    file = tmp_path / "split.onnx"
    options = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(network(), file, **options)
    (tmp_path / "weights.bin").unlink()
    assert served.run("publish", file, "--same-recipe") == 1
    still("weights.bin, which is missing")


@pytest.mark.parametrize("what", ["ir_version", "opset"])
def test_a_file_for_a_newer_runtime(
    served: Stage, still: Expect, tmp_path: Path, what: str
) -> None:
    model = network()
    if what == "opset":
        model.opset_import[0].version = 99
    else:
        model.ir_version = 99
    file = tmp_path / "new.onnx"
    onnx.save(model, file)
    assert served.run("publish", file, "--same-recipe") == 1
    still("99", "read up to")


def test_another_class_count(served: Stage, still: Expect, tmp_path: Path) -> None:
    file = tmp_path / "ten.onnx"
    onnx.save(network(classes=10), file)
    assert served.run("publish", file, "--same-recipe") == 1
    still("class count is 10 in the ONNX file, 1000 in resnet50_inference/")


@pytest.fixture
def labels(served: Stage, tmp_path: Path) -> Callable[..., list[str]]:
    """Makes --labels options; ``groups`` adds the live groups."""

    def make(count: int, languages: tuple[str, ...], *, groups: bool = True) -> list[str]:
        file = tmp_path / "labels.json"
        file.write_text(json.dumps([f"class {n}" for n in range(count)]))
        live = served.repository / "resnet50_postprocess" / "1" / "groups.json"
        options = [f"--labels={language}={file}" for language in languages]
        return [*options, f"--groups={live}"] if groups else options

    return make


def test_wrong_labels(
    served: Stage, still: Expect, candidate: Path, labels: Callable[..., list[str]]
) -> None:
    assert served.run("publish", candidate, *FORCE, *labels(999, ("en", "zh"))) == 1
    still("999 names")
    assert served.run("publish", candidate, *FORCE, *labels(1000, ("en",))) == 1
    still("give each language once")
    without = labels(1000, ("en", "zh"), groups=False)
    assert served.run("publish", candidate, *FORCE, *without) == 1
    still("new labels need --groups")


def test_another_recipe(served: Stage, still: Expect, tmp_path: Path) -> None:
    recipe = {**RECIPE, "resize_size": 256}
    file = write_candidate(tmp_path / "other", recipe=recipe)
    assert served.run("publish", file) == 1
    still("resize_size is 232", "need 256", "new_pipeline.py")


def test_a_manifest_of_another_file(served: Stage, still: Expect, candidate: Path) -> None:
    onnx.save(network(shift=3), candidate)
    beside = candidate.with_name("manifest.json")
    assert served.run("publish", candidate, "--manifest", beside) == 1
    still("describes another file")
    assert served.run("publish", candidate) == 1
    still("no manifest for these bytes", "--same-recipe")


def test_a_candidate_of_another_pipeline(served: Stage, still: Expect, tmp_path: Path) -> None:
    file = write_candidate(tmp_path / "other", pipeline="flowers")
    assert served.run("publish", file) == 1
    still("belongs to the pipeline flowers")


def test_a_candidate_that_answers_otherwise(served: Stage, still: Expect, candidate: Path) -> None:
    assert served.run("publish", candidate) == 1
    still("agrees with the live version on 0%", "--force")


def test_random_weights_do_not_replace_real_ones(
    served: Stage, still: Expect, tmp_path: Path
) -> None:
    file = write_candidate(tmp_path / "random", meaningful=False)
    assert served.run("publish", file) == 1
    still("its weights are random")


def test_logits_that_are_not_finite(served: Stage, still: Expect, tmp_path: Path) -> None:
    model = network()
    (scale,) = (t for t in model.graph.initializer if t.name == "scale")
    scale.CopyFrom(onnx.numpy_helper.from_array(np.float32("inf"), "scale"))
    file = tmp_path / "inf.onnx"
    onnx.save(model, file)
    assert served.run("publish", file, "--same-recipe", *FORCE) == 1
    still("not finite")


def test_a_disk_that_is_full(served: Stage, still: Expect, tmp_path: Path) -> None:
    """The copy breaks off with an error of the file system."""
    file = write_candidate(tmp_path / "next", noise=0.01)
    limit = file.stat().st_size // 2

    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    script = Path(publish.__file__)
    done = subprocess.run(
        [sys.executable, str(script), *served.command("publish", file)],
        cwd=tmp_path,
        preexec_fn=small_disk,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    still("cannot write")


def test_too_little_room_is_noticed_before_anything_is_copied(
    served: Stage, still: Expect, candidate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(served.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    assert served.run("publish", candidate) == 2
    still("1 MB free")


def test_a_second_publisher(served: Stage, still: Expect, candidate: Path) -> None:
    descriptor = os.open(served.repository, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert served.run("publish", candidate, *FORCE) == 2
    finally:
        os.close(descriptor)
    still("another release", "wait until it has finished")


def test_a_wrong_key(served: Stage, still: Expect, candidate: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("not-the-key-of-this-server")
    assert served.run("publish", candidate, *FORCE, "--key-file", key) == 2
    still("refuses the admin key")


def test_no_key(served: Stage, still: Expect, candidate: Path, tmp_path: Path) -> None:
    assert served.run("publish", candidate, "--key-file", tmp_path / "none") == 2
    still("no admin key", "make secrets")


def test_no_server(served: Stage, still: Expect, candidate: Path) -> None:
    assert served.run("publish", candidate, "--grpc-url", "127.0.0.1:1") == 2
    still("no answer", "make serve")


def test_the_wrong_port(served: Stage, still: Expect, candidate: Path) -> None:
    assert served.run("publish", candidate, "--grpc-url", served.server.http_address) == 2
    still("no answer from the gRPC port")


def test_a_smoke_test_that_fails(
    served: Stage, still: Expect, candidate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traffic has been switched by then, and is switched back."""
    monkeypatch.setattr(smoke, "TOLERANCE", -1.0)
    assert served.run("publish", candidate, *FORCE) == 1
    still("smoke: class")


def test_a_version_that_the_server_cannot_load(
    served: Stage, still: Expect, candidate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def admit_broken(self: Versions, staged: Path, number: int) -> None:
        genuine(self, staged, number)
        (self.folder("inference", number) / "model.onnx").write_bytes(b"scratched")

    genuine = Versions.admit
    monkeypatch.setattr(Versions, "admit", admit_broken)
    assert served.run("publish", candidate, *FORCE) == 1
    still("the server refuses", "cannot load it")


def test_a_version_that_is_not_the_file_that_was_checked(
    served: Stage, still: Expect, candidate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def admit_swapped(self: Versions, staged: Path, number: int) -> None:
        genuine(self, staged, number)
        onnx.save(network(shift=3), self.folder("inference", number) / "model.onnx")

    genuine = Versions.admit
    monkeypatch.setattr(Versions, "admit", admit_swapped)
    assert served.run("publish", candidate, *FORCE) == 1
    still("answers otherwise than its ONNX file")


def test_an_ensemble_that_keeps_asking_the_old_version(
    served: Stage, still: Expect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same weights again: only the count of the new version can tell who answered."""
    same = write_candidate(tmp_path / "same")
    genuine = traffic.Traffic.pin

    def stuck(self: traffic.Traffic, release: object) -> None:
        genuine(self, type(release)(1, 1))  # type: ignore[call-arg, arg-type]

    monkeypatch.setattr(traffic.Traffic, "pin", stuck)
    assert served.run("publish", same) == 1
    monkeypatch.undo()
    still("the ensemble does not ask version")


@pytest.mark.parametrize("step", range(1, 9))
def test_a_kill_at_any_step_is_cleaned_up_by_the_next_run(
    served: Stage,
    answer: tuple[int, str],
    still: Expect,
    candidate: Path,
    step: int,
) -> None:
    process = served.process("publish", candidate, *FORCE)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"publish: [{step}/8]") and line.endswith("...\n"):
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    if step < 6:
        # Before the switch, which is one load of milliseconds, nobody has seen the new version.
        assert served.best() == answer
    assert served.run("rollback") == 1
    still("the only one on disk")


@pytest.mark.parametrize("step", [5, 8])
def test_a_publisher_that_is_told_to_stop_goes_back_itself(
    served: Stage, still: Expect, candidate: Path, step: int
) -> None:
    process = served.process("publish", candidate, *FORCE)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"publish: [{step}/8]") and line.endswith("...\n"):
            break
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == "publish: interrupted"
    still()


def test_an_interrupted_rollback_is_completed_by_the_next_run(
    served: Stage, still: Expect, tmp_path: Path
) -> None:
    assert served.run("publish", write_candidate(tmp_path / "next", noise=0.01)) == 0
    process = served.process("rollback")
    assert process.stderr is not None
    for line in process.stderr:
        if "[4/4] finish ..." in line:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert served.run("rollback") == 1
    still("the only one on disk")


def test_a_server_that_dies_during_a_release_starts_with_the_old_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as running:
        candidate = write_candidate(tmp_path / "candidate", SHIFT)
        genuine = traffic.Traffic.hold

        def dies(self: traffic.Traffic, *releases: object) -> None:
            os.kill(running.server.pid, signal.SIGKILL)
            genuine(self, *releases)  # type: ignore[arg-type]

        monkeypatch.setattr(traffic.Traffic, "hold", dies)
        assert running.run("publish", candidate, *FORCE) == 2
        assert "no answer" in capfd.readouterr().err.splitlines()[-1]
        assert running.versions("inference") == [1]
        assert not (tmp_path / ".releases" / "resnet50.unfinished.json").exists()
