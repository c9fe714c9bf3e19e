"""Checks `start` of flows: where a new reader of a topic begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...runtime.starts import parse_start
from ..diagnostics import Diagnostics
from ..model.project import FlowModel, TopologyModel

Sources = Mapping[str, Sequence[tuple[str, str]] | None]
"""Flow -> what it reads, as (kind, name); None if that is not known."""


def check_starts(topology: TopologyModel, sources: Sources, diagnostics: Diagnostics) -> None:
    """Report each `start` that cannot be read, or that is not of topics from elsewhere which only flows read."""
    read: dict[str, FlowModel] = {}
    tables = {table.topic.text: table for table in topology.tables.values() if not table.is_global}
    own = {flow.to.text for flow in topology.flows.values() if flow.to is not None}
    for flow in topology.flows.values():
        start = flow.start
        for name in _topics(flow, sources):
            other = read.setdefault(name, flow)
            if _start(other) != _start(flow):
                _report_other(name, flow, other, diagnostics)
        if start is None or not _is_start(flow, diagnostics):
            continue
        for kind, name in sources.get(flow.name.text) or ():
            if kind != "topic" or name in own:
                what = "is written by this topology itself" if kind == "topic" else f"is a {kind}"
                message = f"`start` is for topics that a topology reads for the first time; '{name}' {what}."
                diagnostics.add("HW760", start.position, message, "Put `start` into the flow that reads the topic.")
            elif name in tables:
                table = tables[name].name.text
                message = f"The table '{table}' reads '{name}' too, and would lack the rows of earlier records."
                diagnostics.add(
                    "HW761", start.position, message, "Leave `start` out, or give the table a topic of its own."
                )


def _is_start(flow: FlowModel, diagnostics: Diagnostics) -> bool:
    assert flow.start is not None
    try:
        parse_start(flow.start.text)
    except ValueError:
        message = f"'{flow.start.text}' says no place in a topic."
        hint = 'Write `earliest`, `latest`, or a time from 1970 on in quotes, such as `"2024-05-01T08:00:00Z"`.'
        diagnostics.add("HW763", flow.start.position, message, hint)
        return False
    return True


def _topics(flow: FlowModel, sources: Sources) -> Iterator[str]:
    return (name for kind, name in sources.get(flow.name.text) or () if kind == "topic")


def _start(flow: FlowModel) -> str:
    return "earliest" if flow.start is None else flow.start.text


def _report_other(topic: str, flow: FlowModel, other: FlowModel, diagnostics: Diagnostics) -> None:
    at, first, second = (flow.start, flow, other) if flow.start is not None else (other.start, other, flow)
    assert at is not None
    message = (
        f"'{first.name.text}' begins at {_start(first)} in '{topic}', '{second.name.text}' at {_start(second)}: "
        "a topology has one position in a topic."
    )
    diagnostics.add("HW762", at.position, message, "Give both the same `start`, or make two topologies of them.")
