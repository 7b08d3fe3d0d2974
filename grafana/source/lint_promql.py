"""Lint of one PromQL expression, on its syntax tree.

Grafana's variables stand in for values, so they are replaced first; `$__rate_interval` becomes a
duration that no one would write, which tells it from a fixed window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import promql_parser

from grafana.source.metric_names import OPTIONAL_EXPORTERS

_PLACEHOLDERS = {"$__rate_interval": "61s", "$__range": "3601s"}
_FLEXIBLE_S = {61.0, 3601.0}
_COUNTER_FUNCTIONS = {"rate", "irate", "increase", "resets"}
_HAS_JOB = re.compile(r"nv_|pipeline[_:]|model:|stage:|up$|scrape_")


@dataclass(frozen=True)
class Context:
    """What encloses the node at hand."""

    function: str = ""
    aggregated: bool = False
    presence: bool = False
    range_s: float | None = None


@dataclass(frozen=True)
class Use:
    """One selector and what stands around it."""

    name: str
    matchers: Mapping[str, str]
    context: Context


def expand(expr: str) -> str:
    """The expression as plain PromQL."""
    for variable, duration in _PLACEHOLDERS.items():
        expr = expr.replace(variable, duration)
    return expr


def variables_in(expr: str) -> set[str]:
    """Names of the dashboard variables that an expression reads."""
    return {name for name in re.findall(r"\$\{?([A-Za-z_]\w*)", expr) if not name.startswith("__")}


def uses_of(expr: str) -> list[Use]:
    """Every selector of an expression. ValueError where it is not PromQL."""
    return list(_walk(promql_parser.parse(expand(expr)), Context()))


def check(expr: str, kinds: Mapping[str, str]) -> list[str]:
    """What is wrong with an expression; `kinds` maps the known metric names to their kind."""
    try:
        uses = uses_of(expr)
    except ValueError as error:
        return [f"not valid PromQL: {error}"]
    faults = [fault for use in uses for fault in _check_use(use, kinds)]
    return faults + _check_quantiles(promql_parser.parse(expand(expr)))


def _check_use(use: Use, kinds: Mapping[str, str]) -> Iterator[str]:
    kind = kinds.get(use.name)
    where = use.context
    if kind is None:
        yield f"unknown metric {use.name}"
        return
    counted = where.function in _COUNTER_FUNCTIONS
    if kind == "counter" and not counted and not where.presence:
        yield f"counter {use.name} outside rate(), increase() or resets()"
    if kind == "gauge" and counted:
        yield f"{where.function}() over the gauge {use.name}"
    if where.range_s is not None and where.range_s not in _FLEXIBLE_S:
        yield f"fixed window of {where.range_s:.0f} s: use $__rate_interval or $__range"
    if use.name.startswith("nv_inference_") and not where.aggregated:
        yield f"{use.name} without an aggregation: GPU hosts add labels to it"
    if _HAS_JOB.match(use.name) and use.matchers.get("job") != "$job":
        yield f'{use.name} without job=~"$job"'
    if use.name in OPTIONAL_EXPORTERS and "job" in use.matchers:
        yield f"{use.name} comes from another job than Triton's"


def _check_quantiles(node: Any) -> list[str]:
    faults = []
    for each in _nodes(node):
        is_quantile = isinstance(each, promql_parser.Call) and each.func.name == (
            "histogram_quantile"
        )
        if is_quantile and "le" not in _labels(each.args[1]):
            faults.append("histogram_quantile() over a sum that drops the label le")
    return faults


def _labels(node: Any) -> list[str]:
    modifier = getattr(node, "modifier", None)
    return (
        list(modifier.labels) if isinstance(node, promql_parser.AggregateExpr) and modifier else []
    )


def _children(node: Any) -> list[Any]:
    if isinstance(node, promql_parser.BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, promql_parser.Call):
        return list(node.args)
    if isinstance(node, promql_parser.MatrixSelector):
        return [node.vector_selector]
    inner = getattr(node, "expr", None)
    return [] if inner is None else [inner]


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _nodes(child)


def _walk(node: Any, context: Context) -> Iterator[Use]:
    if isinstance(node, promql_parser.VectorSelector):
        matchers = {each.name: each.value for each in node.matchers.matchers}
        yield Use(node.name or "", matchers, context)
        return
    for index, child in enumerate(_children(node)):
        yield from _walk(child, _enter(node, index, context))


def _enter(node: Any, index: int, context: Context) -> Context:
    """The context of a node's child: counting series, or excluding by them, reads no value."""
    if isinstance(node, promql_parser.Call):
        return replace(context, function=node.func.name)
    if isinstance(node, promql_parser.AggregateExpr):
        presence = context.presence or str(node.op) in {"count", "group"}
        return replace(context, aggregated=True, presence=presence)
    if isinstance(node, promql_parser.MatrixSelector):
        return replace(context, range_s=node.range.total_seconds())
    if isinstance(node, promql_parser.BinaryExpr) and index == 1 and str(node.op) == "unless":
        return replace(context, presence=True, aggregated=True)
    return context
