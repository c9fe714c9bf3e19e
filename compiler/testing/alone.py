"""A topology on its own, as a test runs it: what other topologies write is fed from outside, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ...runtime.topology import Topic
from ..topology.graph import TopologyGraph


def alone(graph: TopologyGraph) -> TopologyGraph:
    """The graph with every topic that another topology writes as one that none does."""
    found: TopologyGraph = _fed(graph, graph.application)
    return found


def _fed(part: Any, own: str) -> Any:
    """Any part of a graph, with its topics. What has none is the same object."""
    if isinstance(part, Topic):
        return part if part.writer in (None, own) else replace(part, writer=None)
    if isinstance(part, tuple):
        made = tuple(_fed(each, own) for each in part)
        return made if any(new is not old for new, old in zip(made, part, strict=True)) else part
    if isinstance(part, Mapping):
        return {name: _fed(each, own) for name, each in part.items()}
    if is_dataclass(part) and not isinstance(part, type):
        changed = {}
        for field in fields(part):
            value = getattr(part, field.name)
            if (new := _fed(value, own)) is not value and field.init:
                changed[field.name] = new
        return replace(part, **changed) if changed else part
    return part
