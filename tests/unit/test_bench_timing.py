"""Figures, ratios and interleaving, against arithmetic."""

from __future__ import annotations

import gc

import pytest

from benchmarks.timing import Figure, interleaved, ratios


def test_a_figure_is_the_median_with_the_5th_and_the_95th_percentile() -> None:
    assert Figure.of([100, *range(100)]) == Figure(50, 5, 95)
    assert Figure.of([5, 1, 3, 2, 4]) == Figure(3, 1.2, 4.8)


def test_a_single_measurement_has_no_spread() -> None:
    assert Figure.of([1.23456]) == Figure(1.23, 1.23, 1.23)
    assert str(Figure.of([1.23456])) == "1.23"
    assert str(Figure.of([1, 2, 3])) == "2 (1.1–2.9)"


def test_ratios_are_formed_round_by_round() -> None:
    # The second round was slow for everybody: that cancels out.
    assert ratios([2, 20, 2], [1, 10, 1]) == Figure(2, 2, 2)


def test_everyone_is_called_once_before_and_once_in_each_round() -> None:
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds = interleaved(calls, rounds=3, images_per_call=2)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"
    assert {name: len(taken) for name, taken in seconds.items()} == {"a": 3, "b": 3, "c": 3}


def test_garbage_collection_is_on_again_even_after_a_failure() -> None:
    def failing() -> None:
        if not gc.isenabled():
            raise RuntimeError("in a measured round")

    with pytest.raises(RuntimeError):
        interleaved({"a": failing}, rounds=1, images_per_call=1)
    assert gc.isenabled()
