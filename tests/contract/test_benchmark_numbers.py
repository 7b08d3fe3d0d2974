"""Every number of the benchmark page, its headline and its pictures is that of the results."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from benchmarks import document, plots, repositories
from benchmarks.results import DOCUMENT, FOLDER, README, Results

REGENERATE = "run `make bench-docs`"


@pytest.fixture(scope="module")
def results() -> Results:
    return Results()


def test_the_page_is_what_the_results_give(results: Results) -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document.document(results), REGENERATE


def test_the_readme_s_headline_is_what_the_results_give(results: Results) -> None:
    readme = README.read_text(encoding="utf-8")
    assert readme == document.with_headline(readme, results), REGENERATE


def test_every_picture_is_drawn_from_these_results(results: Results) -> None:
    known = {plots.digest(results.bench), plots.digest(results.parity)}
    shown = re.findall(r"!\[[^\]]+\]\(benchmarks/([^)]+)\)", document.document(results))
    assert sorted(shown) == sorted(path.name for path in FOLDER.glob("*.png"))
    for name in shown:
        with Image.open(FOLDER / name) as picture:
            assert picture.info[plots.SOURCE_KEY] in known, f"{name}: {REGENERATE}"


def test_a_changed_number_changes_the_page(results: Results) -> None:
    changed = Results()
    changed.row("null", "ensemble", 16)["images_per_s"]["median"] = 123456
    assert "123456" in document.document(changed)
    assert "123456" not in document.document(results)


def test_the_run_was_whole_and_a_busy_machine_is_confessed(results: Results) -> None:
    assert {"preprocess", "null", "real", "rates", "sizes", "sweep", "gpus"} <= set(results.bench)
    machine = results.bench["machine"]
    is_busy = machine["load_before"] > machine["cores"]
    assert ("busy with other work" in document.document(results)) is is_busy
    assert results.parity["server"]["equal"] == results.parity["server"]["answers"]


def test_the_agreement_gate_holds(results: Results) -> None:
    found = results.pipeline(meaningful=True)
    assert found is not None
    assert found["all"]["crops"] >= 200
    assert found["all"]["top1_percent_without_ties"] >= results.parity["gate_percent"]


def test_bench_repositories_differ_from_the_shipped_one_only_where_they_say(tmp_path) -> None:
    folder = repositories.build(tmp_path, repositories.Variant(), copies=2)
    for stage in ("preprocess", "postprocess", "ensemble"):
        shipped = repositories.read_config(
            repositories.REPOSITORY / f"resnet50_{stage}" / "config.pbtxt"
        )
        built = repositories.read_config(folder / f"resnet50_{stage}" / "config.pbtxt")
        assert built == shipped
        copied = repositories.read_config(folder / f"resnet50_copy1_{stage}" / "config.pbtxt")
        assert copied.name == f"resnet50_copy1_{stage}"
    ensemble = repositories.read_config(folder / "resnet50_copy1_ensemble" / "config.pbtxt")
    steps = {step.model_name for step in ensemble.ensemble_scheduling.step}
    assert steps == {f"resnet50_copy1_{s}" for s in ("preprocess", "inference", "postprocess")}
