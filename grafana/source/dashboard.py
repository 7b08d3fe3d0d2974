"""A whole dashboard: variables, annotations, links and panels laid out row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from grafana.source.fields import DATASOURCE, Json
from grafana.source.panels import Panel

GRID_COLUMNS = 24
TAG = "triton"
SCHEMA_VERSION = 41


@dataclass(frozen=True)
class Row:
    """Panels side by side, wrapping at 24 columns; a `title` puts a heading above them."""

    panels: tuple[Panel, ...]
    height: int = 8
    title: str = ""


@dataclass(frozen=True)
class Variable:
    """A choice on top of the page, filled by `label_values(<metric>, <label>)`."""

    name: str
    label: str
    query: str
    description: str
    multiple: bool = False
    descending: bool = False

    def to_json(self) -> Json:
        """A query variable that is refreshed with the time range, as series come and go."""
        everything = {"selected": True, "text": ["All"], "value": ["$__all"]}
        return {
            "allValue": ".*" if self.multiple else None,
            "current": everything if self.multiple else {},
            "datasource": DATASOURCE,
            "definition": self.query,
            "description": self.description,
            "hide": 0,
            "includeAll": self.multiple,
            "label": self.label,
            "multi": self.multiple,
            "name": self.name,
            "options": [],
            "query": {"qryType": 5, "query": self.query, "refId": f"variable-{self.name}"},
            "refresh": 2,
            "regex": "",
            "skipUrlSync": False,
            "sort": 2 if self.descending else 1,
            "type": "query",
        }


def data_source_variable() -> Json:
    """Lets the same page read another Prometheus."""
    return {
        "current": {"selected": True, "text": "Prometheus", "value": "prometheus"},
        "description": "The Prometheus that scrapes Triton.",
        "hide": 0,
        "includeAll": False,
        "label": "Data source",
        "multi": False,
        "name": "datasource",
        "options": [],
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
        "type": "datasource",
    }


@dataclass(frozen=True)
class Annotation:
    """Marks on every time axis, wherever `expr` has a value."""

    name: str
    expr: str
    title: str
    text: str
    colour: str

    def to_json(self) -> Json:
        """A Prometheus annotation query."""
        return {
            "datasource": DATASOURCE,
            "enable": True,
            "hide": False,
            "iconColor": self.colour,
            "name": self.name,
            "target": {"expr": self.expr, "interval": "60s", "refId": "Anno"},
            "textFormat": self.text,
            "titleFormat": self.title,
        }


@dataclass(frozen=True)
class Dashboard:
    """One page; `uid` is fixed for ever, since links, bookmarks and alerts point at it."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    annotations: tuple[Annotation, ...]
    rows: tuple[Row, ...]
    time_from: str = "now-1h"

    @property
    def panels(self) -> list[Panel]:
        """Every panel, top left to bottom right."""
        return [panel for row in self.rows for panel in row.panels]

    def to_json(self, siblings: Sequence[Dashboard]) -> Json:
        """The provisioned file; `siblings` are the pages to link to."""
        return {
            "annotations": {"list": [each.to_json() for each in self.annotations]},
            "description": self.description,
            "editable": False,
            "fiscalYearStartMonth": 0,
            "graphTooltip": 1,
            "id": None,
            "links": [_link(page) for page in siblings if page.uid != self.uid],
            "liveNow": False,
            "panels": self._place_panels(),
            "refresh": "30s",
            "schemaVersion": SCHEMA_VERSION,
            "tags": [TAG],
            "templating": {
                "list": [data_source_variable(), *(each.to_json() for each in self.variables)]
            },
            "time": {"from": self.time_from, "to": "now"},
            "timepicker": {},
            "timezone": "browser",
            "title": self.title,
            "uid": self.uid,
            "version": 1,
            "weekStart": "",
        }

    def _place_panels(self) -> list[Json]:
        ids = count(1)
        placed: list[Json] = []
        y = 0
        for row in self.rows:
            if row.title:
                placed.append(_heading(row.title, next(ids), y))
                y += 1
            x = 0
            for panel in row.panels:
                if x + panel.width > GRID_COLUMNS:
                    x, y = 0, y + row.height
                grid = {"h": row.height, "w": panel.width, "x": x, "y": y}
                placed.append(panel.to_json(next(ids), grid))
                x += panel.width
            y += row.height
        return placed


def _heading(title: str, panel_id: int, y: int) -> Json:
    grid = {"h": 1, "w": GRID_COLUMNS, "x": 0, "y": y}
    return {
        "collapsed": False,
        "gridPos": grid,
        "id": panel_id,
        "panels": [],
        "title": title,
        "type": "row",
    }


def _link(page: Dashboard) -> Json:
    return {
        "asDropdown": False,
        "icon": "dashboard",
        "includeVars": True,
        "keepTime": True,
        "tags": [],
        "targetBlank": False,
        "title": page.title,
        "tooltip": page.description,
        "type": "link",
        "url": f"/d/{page.uid}",
    }
