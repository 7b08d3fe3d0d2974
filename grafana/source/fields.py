"""What panels are made of: queries, colour steps, values shown as words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

# Every query names the variable, so a dashboard follows the data source chosen on its page.
DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    """One PromQL expression; `legend` is Grafana's template such as `{{stage}}`."""

    expr: str
    legend: str = ""

    def to_json(self, ref_id: str, *, instant: bool, format_: str) -> Json:
        """The target object of a panel."""
        return {
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": self.expr,
            "format": format_,
            "instant": instant,
            "legendFormat": self.legend or "__auto",
            "range": not instant,
            "refId": ref_id,
        }


@dataclass(frozen=True)
class Thresholds:
    """Colour steps: `base` below the first bound, then each colour from its bound upwards."""

    base: str
    steps: tuple[tuple[float, str], ...] = ()

    def to_json(self) -> Json:
        """The absolute-mode thresholds object."""
        steps: list[Json] = [{"color": self.base, "value": None}]
        steps += [{"color": colour, "value": bound} for bound, colour in self.steps]
        return {"mode": "absolute", "steps": steps}


def high_is_bad(yellow: float, red: float) -> Thresholds:
    """Green, then yellow and red from the given bounds upwards."""
    return Thresholds("green", ((yellow, "yellow"), (red, "red")))


def low_is_bad(red_below: float, yellow_below: float) -> Thresholds:
    """Red under the first bound, yellow under the second, green above."""
    return Thresholds("red", ((red_below, "yellow"), (yellow_below, "green")))


# Grafana has no such unit; this is its way to write one.
IMAGES_PER_S = "suffix: img/s"

# No value of such a panel is good or bad by itself.
NEUTRAL = Thresholds("blue")


@dataclass(frozen=True)
class State:
    """A number shown as words on a colour (a value mapping)."""

    value: int
    text: str
    colour: str


def fixed_colour(colour: str) -> Json:
    """The value of a `color` override."""
    return {"fixedColor": colour, "mode": "fixed"}


def override(name: str, **properties: Any) -> Json:
    """Properties of the field called `name`, or /matching a pattern/; `__` in a key is a dot."""
    listed = [{"id": key.replace("__", "."), "value": each} for key, each in properties.items()]
    matcher = "byRegexp" if name.startswith("/") else "byName"
    return {"matcher": {"id": matcher, "options": name}, "properties": listed}
