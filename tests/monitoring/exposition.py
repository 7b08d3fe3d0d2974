"""Prometheus' text format: samples of a /metrics page."""

from __future__ import annotations

import re
import time

import requests

Labels = frozenset[tuple[str, str]]
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Scrape:
    """One /metrics page: sums and differences over the samples that match some labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: dict[tuple[str, Labels], float] = {}
        for line in text.splitlines():
            match = _SAMPLE.match(line)
            if match:
                labels = frozenset(_LABEL.findall(match[2] or ""))
                self.samples[match[1], labels] = float(match[3])

    @classmethod
    def of(cls, url: str) -> Scrape:
        response = requests.get(url, timeout=10)
        response.raise_for_status()
        return cls(response.text)

    @classmethod
    def settled(cls, url: str) -> Scrape:
        """The page once it stands still: Triton answers a request before it counts it."""
        page = cls.of(url)
        while True:
            time.sleep(0.3)
            earlier, page = page, cls.of(url)
            if earlier.counted() == page.counted():
                return page

    def counted(self) -> dict[tuple[str, Labels], float]:
        """What only requests change."""
        moving = ("nv_inference_request_", "pipeline_requests_", "pipeline_stage_duration_")
        return {key: value for key, value in self.samples.items() if key[0].startswith(moving)}

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    def matching(self, name: str, **labels: str) -> list[float]:
        wanted = set(labels.items())
        return [value for (n, own), value in self.samples.items() if n == name and wanted <= own]

    def total(self, name: str, **labels: str) -> float:
        return sum(self.matching(name, **labels))

    def label_values(self, name: str, label: str, **labels: str) -> set[str]:
        wanted = set(labels.items())
        found = (dict(own) for n, own in self.samples if n == name and wanted <= own)
        return {own[label] for own in found if label in own}
