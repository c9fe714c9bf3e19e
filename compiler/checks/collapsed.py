"""Checks that no aggregate and no join of streams takes the changes of a table, collapsed by epoch, for records.

A topic that is written from a table with `emit: per_epoch` has the change of each key from the start of an epoch to its
end. As a table it is the same wherever epochs end. As a stream it is not: its records are as many as there were epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..diagnostics import Diagnostics, Position
from ..model.project import FlowModel, ProjectModel
from ..model.resolve import Resolution
from ..operations.aggregate import AggregateStep
from ..operations.base.checked import CheckedTopology
from ..operations.joins.streams import StreamJoinStep
from ..operations.reduce import ReduceStep
from ..operations.to_table import ToTableStep

Read = tuple[str, str, str]
"""What a flow may read: its topology (empty for a topic), its kind and name."""


def check_collapsed(
    model: ProjectModel, resolution: Resolution, checked: Mapping[str, CheckedTopology], diagnostics: Diagnostics
) -> None:
    """Warn of each aggregate and each join of streams whose records are such changes."""
    collapsed: dict[Read, str] = {}  # -> the topic that is written from a table
    for topology, name in resolution.order:
        flow, found = model.topologies[topology].flows[name], checked[topology].flows.get(name)
        if found is None:
            continue
        sources = resolution.names[topology].sources.get(name) or ()
        origin = _origin(topology, sources, collapsed)
        _check_joined(flow, topology, collapsed, diagnostics)
        if origin is not None:
            origin = _through(flow, origin, diagnostics)
        if origin is not None:
            for made in (name, *(each.text for references in flow.references for each in references.flows)):
                collapsed[topology, "flow", made] = origin
        if flow.to is not None:
            if found.after.is_table and found.after.emit == "per_epoch":
                collapsed["", "topic", flow.to.text] = flow.to.text
            elif origin is not None:
                collapsed["", "topic", flow.to.text] = origin


def _origin(topology: str, sources: Sequence[tuple[str, str]], collapsed: Mapping[Read, str]) -> str | None:
    reads = (("" if kind == "topic" else topology, kind, name) for kind, name in sources)
    return next((collapsed[read] for read in reads if read in collapsed), None)


def _through(flow: FlowModel, origin: str, diagnostics: Diagnostics) -> str | None:
    """The topic from which the flow's records still come as a stream, if they do."""
    for step in flow.steps:
        if isinstance(step.action, ToTableStep):
            return None
        if isinstance(step.action, AggregateStep | ReduceStep | StreamJoinStep):
            _warn(step.word.position, origin, diagnostics)
            return None
    return origin


def _check_joined(flow: FlowModel, topology: str, collapsed: Mapping[Read, str], diagnostics: Diagnostics) -> None:
    """Warn of each stream that the flow joins whose records are such changes."""
    for step in flow.steps:
        if isinstance(step.action, StreamJoinStep):
            stream = step.action.join.table
            for read in ((topology, "flow", stream.text), ("", "topic", stream.text)):
                if read in collapsed:
                    _warn(stream.position, collapsed[read], diagnostics)


def _warn(position: Position, topic: str, diagnostics: Diagnostics) -> None:
    message = (
        f"The topic '{topic}' is written from a table and has one change of each key and epoch. Here each counts as a "
        "record, so the result depends on where epochs end."
    )
    hint = f"Read '{topic}' by an entry of `tables:`, or write `emit: each_update` where its table is made."
    diagnostics.add("HW520", position, message, hint)
