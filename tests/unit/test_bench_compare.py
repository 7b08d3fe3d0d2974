"""Two runs beside each other: which ratios agree, and how the script says so."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

import bench_compare
from benchmarks import comparison
from benchmarks.comparison import Pair
from benchmarks.results import BENCH
from benchmarks.timing import Figure


@pytest.mark.parametrize(
    ("first", "second", "agrees"),
    [
        (Figure(2, 1, 3), Figure(2.5, 2, 4), True),
        (Figure(2, 1, 3), Figure(3.5, 3, 4), True),
        (Figure(2, 1, 3), Figure(4, 3.1, 5), False),
        (Figure(4, 3.1, 5), Figure(2, 1, 3), False),
    ],
)
def test_ranges_that_share_a_value_agree(first: Figure, second: Figure, agrees: bool) -> None:
    assert Pair("a", first, second).agrees is agrees


def test_the_published_run_agrees_with_itself_and_a_changed_ratio_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = json.loads(BENCH.read_text())
    assert len(comparison.pairs(published, published)) > 50
    assert bench_compare.main([str(BENCH)]) == 0
    capsys.readouterr()
    changed = copy.deepcopy(published)
    changed["null"]["ensemble_over"][0]["cpu_ms"] = {"median": 9, "low": 9, "high": 9}
    run = tmp_path / "bench.json"
    run.write_text(json.dumps(changed))
    assert bench_compare.main([str(run), "--json"]) == 1
    pairs = json.loads(capsys.readouterr().out)
    assert sum(not pair["agrees"] for pair in pairs) == 1


def test_a_part_that_one_run_lacks_is_left_out() -> None:
    published = json.loads(BENCH.read_text())
    partial = {key: value for key, value in published.items() if key != "null"}
    names = [pair.measure for pair in comparison.pairs(published, partial)]
    assert names
    assert not any(name.startswith("null") for name in names)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"null": {"ensemble_over": [1]}}'])
def test_what_is_no_run_is_refused_in_one_line(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "bench.json"
    run.write_text(content)
    assert bench_compare.main([str(run)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
