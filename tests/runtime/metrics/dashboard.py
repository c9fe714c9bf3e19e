"""The Grafana dashboard that comes with the package, as tests read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

DASHBOARD: dict[str, Any] = json.loads(
    resources.files("headwater.runtime.metrics").joinpath("grafana.json").read_text()
)

_METRIC = re.compile(r"\b((?:headwater|process)_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r'(\w+)\s*(?:=~|!=|!~|=)\s*"')
_BY = re.compile(r"\bby \(([^)]*)\)")
_SHOWN = re.compile(r"\{\{(\w+)\}\}")


def expressions() -> Iterator[tuple[str, str, str]]:
    """The title of each panel, an expression, and what its legend shows."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"], ""


def metrics(expression: str) -> dict[str, set[str]]:
    """The metrics of an expression, with the labels that they need to have."""
    grouped = {label.strip() for by in _BY.findall(expression) for label in by.split(",")}
    if named := re.fullmatch(r"label_values\(\w+, (\w+)\)", expression):
        grouped.add(named[1])
    return {name: grouped | set(_LABEL.findall(of)) for name, of in _METRIC.findall(expression)}


def shown(legend: str) -> set[str]:
    """The labels that a legend shows."""
    return set(_SHOWN.findall(legend))
