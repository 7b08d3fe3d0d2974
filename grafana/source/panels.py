"""What every panel has, and the JSON that Grafana reads for it (classic dashboard schema)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from grafana.source.fields import (
    DATASOURCE,
    NEUTRAL,
    Json,
    Query,
    State,
    Thresholds,
    fixed_colour,
    override,
)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What every panel has; widths are in columns of the 24-column grid.

    `always_has_data`: with a server under traffic the queries must return series.
    `colours`: series name, as the legend shows it, or /pattern/ of names, to a fixed colour.
    """

    type_name: ClassVar[str]
    query_format: ClassVar[str] = "time_series"

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    thresholds: Thresholds = NEUTRAL
    width: int = 8
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    states: tuple[State, ...] = ()
    colours: Mapping[str, str] = field(default_factory=dict)
    no_value: str | None = None
    repeat_by: str | None = None
    always_has_data: bool = False

    @property
    def instant(self) -> bool:
        """True: the value now is enough; False: the whole time range is queried."""
        return False

    def options(self) -> Json:
        """Options of the panel type."""
        raise NotImplementedError

    def custom(self) -> Json:
        """Drawing settings of the panel type's fields."""
        return {}

    def colour_mode(self) -> Json:
        """How a field without a fixed colour gets one."""
        return {"mode": "thresholds"}

    def overrides(self) -> list[Json]:
        """Field overrides; here the fixed colours."""
        return [override(name, color=fixed_colour(colour)) for name, colour in self.colours.items()]

    def transformations(self) -> list[Json]:
        """Steps between query and panel."""
        return []

    def _field_defaults(self) -> Json:
        defaults: Json = {
            "color": self.colour_mode(),
            "custom": self.custom(),
            "mappings": [],
            "thresholds": self.thresholds.to_json(),
            "unit": self.unit,
        }
        if self.states:
            texts = {
                str(state.value): {"color": state.colour, "index": index, "text": state.text}
                for index, state in enumerate(self.states)
            }
            defaults["mappings"] = [{"type": "value", "options": texts}]
        optional = {
            "decimals": self.decimals,
            "max": self.maximum,
            "min": self.minimum,
            "noValue": self.no_value,
        }
        return defaults | {key: value for key, value in optional.items() if value is not None}

    def to_json(self, panel_id: int, grid: Json) -> Json:
        """The panel object at its place on the grid."""
        panel: Json = {
            "datasource": DATASOURCE,
            "description": self.description,
            "fieldConfig": {"defaults": self._field_defaults(), "overrides": self.overrides()},
            "gridPos": grid,
            "id": panel_id,
            "options": self.options(),
            "targets": [
                query.to_json(chr(ord("A") + i), instant=self.instant, format_=self.query_format)
                for i, query in enumerate(self.queries)
            ],
            "title": self.title,
            "transformations": self.transformations(),
            "type": self.type_name,
        }
        if self.repeat_by:
            panel |= {"maxPerRow": 24 // self.width, "repeat": self.repeat_by}
            panel["repeatDirection"] = "h"
        return panel
