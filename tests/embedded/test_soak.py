"""Minutes of mixed traffic, part of it above capacity: `make soak` in short.

SOAK_SECONDS (default 180) sets how long; an hour is what `make soak` runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from slow_pipeline import make_slow_repository
from small_pipeline import PROJECT

from soaking import corpus
from soaking.watch import growth

SECONDS = float(os.environ.get("SOAK_SECONDS", "180"))
IMAGE_MS = 8


def test_everything_holds_under_mixed_traffic_and_overload(tmp_path: Path) -> None:
    repository = make_slow_repository(tmp_path / "models", IMAGE_MS)
    script = PROJECT / "scripts" / "soak.py"
    done = subprocess.run(
        [sys.executable, str(script), "--json", "--seconds", str(SECONDS),
         "--model-repository", str(repository)],
        cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS + 240, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    checks = json.loads(done.stdout)
    for check in checks:
        print(f"{'ok' if check['passed'] else 'FAILED':6} {check['name']}: {check['detail']}")
    assert [check for check in checks if not check["passed"]] == []
    assert done.returncode == 0


def test_the_same_seed_gives_the_same_corpus_and_another_gives_another() -> None:
    assert corpus.build(3) == corpus.build(3)
    assert corpus.build(3) != corpus.build(4)


def test_the_corpus_holds_the_stated_share_of_bad_images() -> None:
    import random

    source = random.Random(0)
    elements = corpus.build(0)
    drawn = [elements.draw(source) for _ in range(20_000)]
    share = sum(element.code is not None for element in drawn) / len(drawn)
    assert share == pytest.approx(corpus.BAD_SHARE, abs=0.01)


def test_only_growth_of_the_floor_after_the_warm_up_counts() -> None:
    warm_up, flat = [10, 40, 70, 90], [100, 100, 100, 180]
    assert growth([*warm_up, *flat, *flat]) == 0
    assert growth([*warm_up, *flat, 100, 100, 400, 400]) == 0
    assert growth([*warm_up, *flat, 120, 120, 120, 180]) == 20
