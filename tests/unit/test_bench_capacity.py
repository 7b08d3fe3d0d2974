"""The capacity plan: its arithmetic on round constants, and its command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import plan_capacity
from benchmarks import capacity
from benchmarks.capacity import CapacityError
from benchmarks.laws import LAWS
from benchmarks.repositories import Law


def _figure(value: float) -> dict[str, float]:
    return {"median": value, "low": value, "high": value}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """10 ms CPU, 8 ms preprocessing and 12 ms alone for a full-HD picture."""
    sizes = [
        {"size": "hd1080", "clients": 4, "cpu_ms": _figure(10), "body_kB": 400},
        {"size": "hd1080", "clients": 1, "p50_ms": _figure(12), "body_kB": 400},
    ]
    single = [{"size": "hd1080", "format": "jpeg", "ms": {"ours": _figure(8)}}]
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"sizes": sizes, "preprocess": {"single": single}}))
    return path


def test_cores_follow_from_rate_and_cost(results: Path) -> None:
    plan = capacity.plan("h100", 16, "1080p", 700, results)
    assert plan.cores_needed == 10  # 700/s of 10 ms are 7 cores, planned at 70 %
    assert plan.hosts == 1
    assert plan.core_utilisation == pytest.approx(7 / 16, abs=0.01)
    assert plan.limit == "preprocessing (CPU)"


def test_too_few_cores_mean_more_hosts(results: Path) -> None:
    plan = capacity.plan("h100", 4, "1080p", 700, results)
    assert plan.hosts == 3
    assert plan.core_utilisation <= capacity.MAX_UTILISATION


def test_a_slow_card_is_the_limit_where_cores_abound(results: Path) -> None:
    plan = capacity.plan("large_t4", 64, "1080p", 600, results)
    assert plan.limit == "inference (GPU)"
    assert plan.hosts == 3  # 348 images/s at most, 243 planned


def test_batches_grow_only_as_far_as_the_rate_demands(results: Path) -> None:
    assert capacity.plan("t4", 64, "1080p", 100, results).batch == 1
    busy = capacity.plan("t4", 64, "1080p", 1500, results)
    law = LAWS["t4"]
    assert 1500 / busy.hosts <= 0.7 * law.images_per_s(busy.batch)
    assert 1500 / busy.hosts > 0.7 * law.images_per_s(busy.batch - 1)


def test_latency_grows_with_the_load(results: Path) -> None:
    quiet, busy = (capacity.plan("l4", 8, "1080p", rate, results) for rate in (10, 550))
    assert quiet.latency_p50_ms is not None
    assert busy.latency_p50_ms is not None
    # Alone: 12 ms as measured, and one image on the card.
    assert quiet.latency_p50_ms == pytest.approx(12 + LAWS["l4"].batch_ms(1), abs=0.3)
    assert busy.latency_p50_ms > quiet.latency_p50_ms


def test_a_law_is_fixed_plus_per_image() -> None:
    law = Law(fixed_us=1000, per_image_us=250)
    assert law.batch_ms(4) == 2
    assert law.images_per_s(4) == 2000


def test_impossible_questions_are_refused_in_one_line(results: Path, tmp_path: Path) -> None:
    for cores, rate in ((0, 10), (4, 0), (4, -1)):
        with pytest.raises(CapacityError, match="CORES must be at least 1"):
            capacity.plan("l4", cores, "1080p", rate, results)
    with pytest.raises(CapacityError, match="cannot be read"):
        capacity.plan("l4", 4, "1080p", 10, tmp_path / "absent.json")


@pytest.mark.parametrize(("rate", "code"), [("100", 0), ("5000", 1)])
def test_the_exit_code_says_whether_one_host_is_enough(
    results: Path, rate: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--gpu", "l4", "--cores", "16", "--image", "1080p", "--rate", rate]
    assert plan_capacity.main([*arguments, "--results", str(results)]) == code
    shown = capsys.readouterr().out
    assert ("scale out" in shown) is (code == 1)
    assert plan_capacity.main([*arguments, "--results", str(results), "--json"]) == code
    assert json.loads(capsys.readouterr().out)["hosts"] >= 1


def test_missing_results_are_an_environment_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--gpu", "l4", "--cores", "16", "--image", "1080p", "--rate", "5"]
    assert plan_capacity.main([*arguments, "--results", str(tmp_path / "no.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err
