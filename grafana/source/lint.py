"""Lint of a dashboard's JSON: what makes a page rot, lie, or come up empty.

The rules are those of Grafana's dashboard linter in our own words, and a few of ours. Each takes
one dashboard and yields faults. EXCLUSIONS are the deliberate departures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from grafana.source import lint_promql
from grafana.source.fields import DATASOURCE

Json = dict[str, Any]
GRID_COLUMNS = 24
CORE_PANELS = {"stat", "timeseries", "heatmap", "table", "state-timeline"}
UID = re.compile(r"[a-z0-9-]{1,40}")

# (page, panel or *, the fault's beginning, why it is meant)
EXCLUSIONS: tuple[tuple[str, str, str, str], ...] = (
    (
        "triton-overview",
        "Error budget left, 30 days",
        "fixed window of 2592000 s",
        "the objective is defined over 30 days, whatever the page's time range",
    ),
    (
        "triton-host",
        "GPU XID errors",
        "fixed window of 600 s",
        "an error of the last ten minutes must stay visible at every zoom",
    ),
    (
        "*",
        "annotation Restarts",
        "fixed window of 60 s",
        "it is the step of the annotation: one mark per restart",
    ),
    (
        "*",
        "annotation Restarts",
        "nv_inference_request_success without an aggregation",
        "the mark names the server, whose labels it needs",
    ),
    (
        "*",
        "variable job",
        "nv_inference_request_success without job",
        "it is the list of jobs to choose from",
    ),
    (
        "triton-releases",
        "*",
        "pipeline:expected_",
        "what is expected is generated, not scraped",
    ),
    *(
        (page, "variables", "no variable instance", "the page is about the service, not one server")
        for page in ("triton-overview", "triton-stages", "triton-releases")
    ),
)


def panels_of(page: Json) -> list[Json]:
    """Panels that show data; row headings are not among them."""
    return [panel for panel in page["panels"] if panel["type"] != "row"]


def expressions_of(page: Json) -> Iterator[tuple[str, str]]:
    """(place, PromQL) of every query: panels, annotations, variables."""
    for panel in panels_of(page):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in page["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["target"]["expr"]
    for variable in page["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            # count() is what label_values does: it looks at labels, not at values.
            yield f"variable {variable['name']}", f"count({match[1] if match else ''})"


def check_identity(page: Json) -> Iterator[tuple[str, str]]:
    """Fixed uid, no id, not editable, described; nothing left of an export from the UI."""
    if not UID.fullmatch(page["uid"]):
        yield "page", f"uid {page['uid']!r} is not 1 to 40 of a-z, 0-9, -"
    if page["id"] is not None:
        yield "page", "id is not null: Grafana gives it"
    if page["editable"]:
        yield "page", "editable in the UI, where changes are lost"
    if "__inputs" in page or "__requires" in page:
        yield "page", "holds an export's __inputs"
    for key in ("title", "description", "tags", "refresh"):
        if not page.get(key):
            yield "page", f"no {key}"


def check_data_sources(page: Json) -> Iterator[tuple[str, str]]:
    """Everything that asks Prometheus does it through the variable."""
    asking = [(panel["title"], panel) for panel in panels_of(page)]
    asking += [(panel["title"], each) for panel in panels_of(page) for each in panel["targets"]]
    asking += [(f"annotation {each['name']}", each) for each in page["annotations"]["list"]]
    asking += [
        (f"variable {each['name']}", each)
        for each in page["templating"]["list"]
        if each["type"] == "query"
    ]
    for place, each in asking:
        if each.get("datasource") != DATASOURCE:
            yield place, f"data source {each.get('datasource')} is not ${{datasource}}"


def check_variables(page: Json) -> Iterator[tuple[str, str]]:
    """datasource, job and instance exist, follow the time range, and no unknown one is read."""
    variables = {each["name"]: each for each in page["templating"]["list"]}
    for name in ("datasource", "job", "instance"):
        if name not in variables:
            yield "variables", f"no variable {name}"
    for name, each in variables.items():
        if each["type"] == "query" and each["refresh"] != 2:
            yield f"variable {name}", "is not refreshed when the time range changes"
        if not each.get("label") or not each.get("description"):
            yield f"variable {name}", "no label or description"
    for place, expr in expressions_of(page):
        for name in sorted(lint_promql.variables_in(expr) - variables.keys()):
            yield place, f"reads the undefined variable {name}"


def check_panels(page: Json) -> Iterator[tuple[str, str]]:
    """Title, description, unit, thresholds, queries; core panel types only."""
    for panel in panels_of(page):
        place = panel["title"] or f"panel {panel['id']}"
        defaults = panel["fieldConfig"]["defaults"]
        if not panel["title"]:
            yield place, "no title"
        if len(panel.get("description", "")) < 20:
            yield place, "no description that explains anything"
        if not defaults.get("unit"):
            yield place, "no unit"
        bounds = [step["value"] for step in defaults.get("thresholds", {}).get("steps", [])]
        if not bounds or bounds[0] is not None or bounds[1:] != sorted(bounds[1:]):
            yield place, "no thresholds, or not in ascending order"
        if not panel["targets"] or not all(each["expr"] for each in panel["targets"]):
            yield place, "nothing is queried"
        if panel["type"] not in CORE_PANELS:
            yield place, f"panel type {panel['type']} may be missing in a plain Grafana"
        if len({each["refId"] for each in panel["targets"]}) < len(panel["targets"]):
            yield place, "two queries with one refId"


def check_layout(page: Json) -> Iterator[tuple[str, str]]:
    """Inside the grid, no overlap, unique ids and titles."""
    taken: dict[tuple[int, int], str] = {}
    seen: set[Any] = set()
    for panel in page["panels"]:
        place, grid = panel["title"], panel["gridPos"]
        for key in (panel["id"], place):
            if key in seen:
                yield place, f"second panel with id or title {key!r}"
            seen.add(key)
        if grid["x"] < 0 or grid["x"] + grid["w"] > GRID_COLUMNS:
            yield place, "outside the 24 columns"
        cells = [
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        ]
        for other in sorted({taken[cell] for cell in cells if cell in taken}):
            yield place, f"overlaps {other}"
        taken |= dict.fromkeys(cells, place)


def check_queries(page: Json, kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every expression, by lint_promql."""
    for place, expr in expressions_of(page):
        for fault in lint_promql.check(expr, kinds):
            yield place, fault


def check_links(page: Json, uids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each page links to all others, keeping time range and variables."""
    targets = [link["url"].removeprefix("/d/") for link in page["links"]]
    if sorted(targets) != sorted(uid for uid in uids if uid != page["uid"]):
        yield "links", f"lead to {targets}, not to all other pages"
    for link in page["links"]:
        if not (link["keepTime"] and link["includeVars"]):
            yield "links", f"{link['title']} loses the time range or the variables"


def lint(pages: Sequence[Json], kinds: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(uid, place, fault) of all pages, the exclusions not yet taken off."""
    uids = [page["uid"] for page in pages]
    rules: tuple[Callable[[Json], Iterator[tuple[str, str]]], ...] = (
        check_identity,
        check_data_sources,
        check_variables,
        check_panels,
        check_layout,
        lambda page: check_queries(page, kinds),
        lambda page: check_links(page, uids),
    )
    faults = [
        (page["uid"], place, fault)
        for page in pages
        for rule in rules
        for place, fault in rule(page)
    ]
    return faults + [(uid, "page", "uid used twice") for uid in uids if uids.count(uid) > 1]


def is_excluded(fault: tuple[str, str, str], exclusion: tuple[str, str, str, str]) -> bool:
    """True where the exclusion speaks of this fault."""
    uid, place, text = fault
    page, panel, beginning, _ = exclusion
    return page in ("*", uid) and panel in ("*", place) and text.startswith(beginning)
