"""A short fuzzing campaign against the real server; `make fuzz` runs a long one."""

from __future__ import annotations

from embedded import EmbeddedServer
from fuzzing.campaign import run
from fuzzing.mutations import elements, parameters

COUNT = 3000


def test_the_same_seed_gives_the_same_damage() -> None:
    assert list(elements(5, 50)) == list(elements(5, 50))
    assert list(parameters(5, 50)) == list(parameters(5, 50))
    assert list(elements(5, 50)) != list(elements(6, 50))


def test_every_damaged_element_gets_a_listed_answer(server: EmbeddedServer) -> None:
    report = run(server, "resnet50", COUNT, seed=20)
    assert report.faults == []
    assert report.server_alive
    assert report.rss_growth_bytes < 200 * 2**20
    codes = {"ok", "CORRUPT_IMAGE", "UNSUPPORTED_FORMAT", "INVALID_BASE64"}
    assert codes <= set(report.outcomes), "the campaign reached too little"
