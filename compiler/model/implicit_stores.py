"""The stores of a topology that no file declares: which there are, by its steps alone, without types."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ..diagnostics import Position
from ..operations.aggregate import AggregateStep
from ..operations.base.step import Step
from ..operations.filter import FilterStep
from ..operations.joins.step import JoinStep
from ..operations.parts.tables import RESULT
from ..operations.reduce import ReduceStep
from ..operations.select import DropStep, SelectStep, WithColumnsStep
from ..operations.suppress import SuppressStep
from ..operations.to_table import ToTableStep
from ..operations.window import WindowStep
from ..reading.nodes import Scalar
from .project import FlowModel, TopologyModel

Kind = Literal["stream", "stored", "bare"]
"""A stream, a table with a store of its own, or one without."""


@dataclass(frozen=True)
class _Point:
    """What a flow is at some point. `expires`: whether its rows have windows, and are forgotten some time after them.

    Right behind a `window` step it says so of what is made of the stream.
    """

    kind: Kind = "stream"
    expires: bool = False


def implicit_stores(model: TopologyModel) -> Iterator[tuple[str, Position]]:
    """Name and place. A table or flow names none, or a join needs the rows of one that has none."""
    yield from ((table.name.text, table.name.position) for table in model.tables.values() if table.store is None)
    looked_up = _looked_up(model)
    ends = _ends(model, looked_up)
    for flow in model.flows.values():
        steps = flow.references
        endings = dict.fromkeys(
            step.store_ending for step in steps if step.stores_result and not step.stores and not step.implied
        )
        points = _points(flow, ends)
        by_key = bool(steps) and _by_foreign_key(flow.steps[-1], points[-2])
        needs = bool(steps) and not by_key and (not steps[-1].stores_result or steps[-1].store_ending)
        if flow.name.text in looked_up and needs:
            endings[RESULT if "" in endings or flow.name.text in model.stores else ""] = None
        yield from ((flow.name.text + ending, flow.name.position) for ending in endings)
        for owner, ending in (each for step in steps for each in step.implied):
            yield (owner or flow.name).text + ending, (owner or flow.name).position
        for step, point in zip(flow.steps, points, strict=False):
            if not isinstance(step.action, JoinStep):
                continue
            if _by_foreign_key(step, point):
                label = "-".join([flow.name.text, *([step.name.text] if step.name else [])])
                for ending in step.action.foreign_key_stores(point.kind == "stored", point.expires):
                    yield f"{label}-{ending}", step.word.position
            elif point.kind == "bare":
                named = step.name or step.action.join.table
                yield f"{flow.name.text}-{named.text}", step.word.position


def joined_tables(model: TopologyModel) -> dict[str, list[Scalar]]:
    """For each flow the tables that it joins by key where it is a table itself: their changes reach it, too."""
    ends = _ends(model, _looked_up(model))
    return {
        name: [
            step.action.join.table
            for step, point in zip(flow.steps, _points(flow, ends), strict=False)
            if isinstance(step.action, JoinStep) and point.kind != "stream" and not _by_foreign_key(step, point)
        ]
        for name, flow in model.flows.items()
    }


def _looked_up(model: TopologyModel) -> set[str]:
    """The tables and flows in which joins look up rows."""
    return {table.text for flow in model.flows.values() for step in flow.references for table in step.tables}


def _ends(model: TopologyModel, looked_up: Container[str]) -> Mapping[str, _Point]:
    """What each table and flow is at its end. Flows of a branch are not among them: they are streams."""
    ends: dict[str, _Point] = dict.fromkeys(model.tables, _Point("stored"))
    before: dict[str, _Point] | None = None
    # Flows may stand in any order, and what they are settles in as many rounds as they are apart.
    while ends != before:
        before = dict(ends)
        for name, flow in model.flows.items():
            end = _points(flow, ends)[-1]
            # A join that looks up rows in a table without a store gives it one.
            ends[name] = replace(end, kind="stored") if end.kind == "bare" and name in looked_up else end
    return ends


def _points(flow: FlowModel, ends: Mapping[str, _Point]) -> list[_Point]:
    """What a flow is before each of its steps, and at its end."""
    points = [ends.get(flow.sources[0].text, _Point()) if len(flow.sources) == 1 else _Point()]
    for step in flow.steps:
        points.append(_after(step, points[-1], ends))
    return points


def _by_foreign_key(step: Step, before: _Point) -> bool:
    """Whether it is a join of a table by a foreign key. `before`: what the flow is before it."""
    return isinstance(step.action, JoinStep) and step.action.join.by is not None and before.kind != "stream"


def _after(step: Step, before: _Point, ends: Mapping[str, _Point]) -> _Point:
    match step.action:
        case ToTableStep():
            return _Point("stored")
        case WindowStep():
            return _Point(expires=True)
        case AggregateStep() | ReduceStep():
            return _Point("stored", before.expires) if step.action.on_close is None else _Point()
        case SuppressStep():
            return _Point() if step.action.wait_ms is None else _Point("bare", before.expires)
        case JoinStep() if _by_foreign_key(step, before):
            return _Point("stored")
        case FilterStep() | SelectStep() | WithColumnsStep() | DropStep() | JoinStep() if before.kind != "stream":
            other = ends.get(step.action.join.table.text, _Point()) if isinstance(step.action, JoinStep) else before
            return _Point("bare", before.expires and other.expires)
        case _:
            return _Point()
