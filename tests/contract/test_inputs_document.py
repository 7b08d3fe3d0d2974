"""docs/inputs.md lists exactly the kinds that the suite tests, with the codes they get."""

from __future__ import annotations

import re
from pathlib import Path

from image_cases import ALL_CASES

from common.errors import ERROR_CODES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "inputs.md"
ROWS = dict(re.findall(r"^\| (G-\d+)[^|]*\|(.*)\|$", DOCUMENT.read_text("utf-8"), re.MULTILINE))


def test_every_kind_of_the_suite_has_its_row() -> None:
    assert {case.kind.split()[0] for case in ALL_CASES} <= set(ROWS)


def test_rows_name_the_codes_that_the_suite_expects() -> None:
    for case in ALL_CASES:
        row = ROWS[case.kind.split()[0]]
        codes = set(case.codes)
        # Where the reference answer is right too, "ok" is what the row promises.
        if case.shows is not None:
            assert "ok" in row, str(case)
        else:
            assert codes & set(re.findall(r"`([A-Z0-9_]+)`", row)), str(case)


def test_no_row_names_a_code_outside_the_catalogue() -> None:
    for row in ROWS.values():
        for code in re.findall(r"`([A-Z]+_[A-Z0-9_]+)`", row):
            assert code in (*ERROR_CODES, "RAW_IMAGE")
