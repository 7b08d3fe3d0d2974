"""The panel types in use; all are part of every Grafana, none is a plugin to install."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from grafana.source.fields import Json, override
from grafana.source.panels import Panel

LAST_VALUE: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}


@dataclass(frozen=True, kw_only=True)
class Stat(Panel):
    """One big number of now; `filled` paints the panel. Courses belong to the time series."""

    type_name: ClassVar[str] = "stat"

    filled: bool = False

    @property
    def instant(self) -> bool:
        """One evaluation is enough: a 30-day window at every step is not cheap."""
        return True

    def options(self) -> Json:
        """Background fill is kept for the numbers that mean healthy or not."""
        return {
            "colorMode": "background" if self.filled else "value",
            "graphMode": "none",
            "justifyMode": "center",
            "orientation": "auto",
            "reduceOptions": LAST_VALUE,
            "textMode": "value",
        }


@dataclass(frozen=True, kw_only=True)
class TimeSeries(Panel):
    """Lines over time.

    `limits` draws the thresholds and `dashed` the named series as dashed lines. The axis goes up
    to `axis_reaches` even where the data stay below. `names_only`: a legend without values, for
    many long names.
    """

    type_name: ClassVar[str] = "timeseries"

    stacked: bool = False
    limits: bool = False
    bars: bool = False
    dashed: tuple[str, ...] = ()
    axis_reaches: float | None = None
    names_only: bool = False

    def options(self) -> Json:
        """A legend with the last value: it can be read without hovering."""
        return {
            "legend": {
                "calcs": [] if self.names_only else ["lastNotNull"],
                "displayMode": "list",
                "placement": "bottom",
                "showLegend": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }

    def custom(self) -> Json:
        """Line style."""
        reach = {} if self.axis_reaches is None else {"axisSoftMax": self.axis_reaches}
        return reach | {
            "barWidthFactor": 1,
            "drawStyle": "bars" if self.bars else "line",
            "fillOpacity": 80 if self.stacked or self.bars else 8,
            "lineInterpolation": "linear",
            # A line would draw a series of zeros as an edge on top of the stack.
            "lineWidth": 0 if self.stacked else 2,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if self.stacked else "none"},
            "thresholdsStyle": {"mode": "dashed" if self.limits else "off"},
        }

    def overrides(self) -> list[Json]:
        """Fixed colours, and limits drawn dashed, without filling and out of the stack."""
        style = {"dash": [8, 6], "fill": "dash"}
        dashed = [
            override(
                name,
                custom__lineStyle=style,
                custom__lineWidth=1,
                custom__fillOpacity=0,
                custom__stacking={"group": "A", "mode": "none"},
            )
            for name in self.dashed
        ]
        return [*super().overrides(), *dashed]

    def colour_mode(self) -> Json:
        """Series without a colour of their own take one of the classic palette."""
        return {"mode": "palette-classic"}


@dataclass(frozen=True, kw_only=True)
class Heatmap(Panel):
    """A Prometheus histogram over time; the y axis is the bucket bound."""

    type_name: ClassVar[str] = "heatmap"
    query_format: ClassVar[str] = "heatmap"

    def options(self) -> Json:
        """Buckets come ready from Prometheus, so nothing is calculated here."""
        return {
            "calculate": False,
            "cellGap": 0,
            "color": {"exponent": 0.5, "mode": "scheme", "scheme": "Oranges", "steps": 64},
            "filterValues": {"le": 1e-9},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "tooltip": {"mode": "single", "yHistogram": False},
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": self.unit},
        }


@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """The current label sets as rows; `columns` maps label to heading, in order.

    The sample itself has the key `Value`; a column that is not named is left out. `widths` are in
    pixels; the other columns share the rest.
    """

    type_name: ClassVar[str] = "table"
    query_format: ClassVar[str] = "table"

    columns: Mapping[str, str]
    coloured: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)

    @property
    def instant(self) -> bool:
        """A table shows now."""
        return True

    def options(self) -> Json:
        """A plain table without footer."""
        return {"cellHeight": "sm", "footer": {"show": False}, "showHeader": True}

    def custom(self) -> Json:
        """Cells are text unless a column is coloured."""
        return {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False}

    def overrides(self) -> list[Json]:
        """Widths, cells coloured by their value, and a dash where a label is empty."""
        empty = [override(column, noValue="–") for column in self.columns.values()]
        widths = [override(column, custom__width=width) for column, width in self.widths.items()]
        coloured = [
            override(
                column,
                custom__cellOptions={"type": "color-background"},
                mappings=[_words_to_colours(colours)],
            )
            for column, colours in self.coloured.items()
        ]
        return [*empty, *widths, *coloured]

    def transformations(self) -> list[Json]:
        """Keep, order and rename the named columns."""
        keep = {
            "id": "filterFieldsByName",
            "options": {"include": {"names": list(self.columns)}},
        }
        rename = {
            "id": "organize",
            "options": {
                "excludeByName": {},
                "indexByName": {name: index for index, name in enumerate(self.columns)},
                "renameByName": dict(self.columns),
            },
        }
        return [keep, rename]


def _words_to_colours(colours: Mapping[str, str]) -> Json:
    options = {
        word: {"color": colour, "index": index, "text": word}
        for index, (word, colour) in enumerate(colours.items())
    }
    return {"type": "value", "options": options}


@dataclass(frozen=True, kw_only=True)
class StateTimeline(Panel):
    """A bar per series, coloured by its value over time."""

    type_name: ClassVar[str] = "state-timeline"

    def options(self) -> Json:
        """Equal neighbours merge into one bar."""
        return {
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
            "mergeValues": True,
            "rowHeight": 0.8,
            "showValue": "never",
            "tooltip": {"mode": "single", "sort": "none"},
        }

    def custom(self) -> Json:
        """Solid bars."""
        return {"fillOpacity": 80, "lineWidth": 0, "spanNulls": False}
