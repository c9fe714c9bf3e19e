"""`join` of two streams: of records with equal keys and timestamps within a range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, cast

from ....runtime.engine.operators.joins import UNMATCHED_HEAD, UNMATCHED_TAIL, TableHow
from ....runtime.ir.topology import Store
from ....runtime.ir.windows import JoinWindow
from ...entries import Reader, declared_store, mapping, milliseconds, pairs, scalar, text
from ...language.expressions import Types
from ...reading.source import MappingNode, Node, ScalarNode
from ..base.context import (
    FlowContext,
    OtherStream,
    PlacedOperation,
    References,
    Rejection,
    Step,
    StepAction,
    StreamPair,
    streams_only,
)
from ..base.site import UNKNOWN, Shape
from ..parts.joins import JoiningStreams
from .columns import WrittenJoin, added_columns, check_co_partitioned, compute, plan_columns

THIS, OTHER, UNMATCHED = "_this", "_other", "_unmatched"
"""Endings of names of unnamed stores, behind the flow's name; of the last one, behind the name of this side's store."""


@dataclass(frozen=True)
class StreamJoinStep(StepAction):
    """`join:` with a stream. `this`, `other`: the named stores of the two sides, or None."""

    join: WrittenJoin
    window: JoinWindow
    this: ScalarNode | None
    other: ScalarNode | None

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if not isinstance(node, MappingNode):
            return None
        stream, within = scalar(node, "stream"), _within(node)
        if stream is None or within is None:
            return None
        values = reader.columns(pairs(node, "values")) if "values" in node else None
        how, stores = cast(TableHow, text(node, "type", "inner")), mapping(node, "stores")
        return cls(
            WrittenJoin(stream, how, stream.position, None, None, values, "stream"),
            JoinWindow(*within, milliseconds(scalar(node, "grace")) or 0),
            scalar(stores, "this"),
            scalar(stores, "other"),
        )

    def references(self) -> References:
        named = tuple(store for store in (self.this, self.other) if store is not None)
        unnamed = [suffix for suffix, store in ((THIS, self.this), (OTHER, self.other)) if store is None]
        implied: list[tuple[ScalarNode | None, str]] = [(None, suffix) for suffix in unnamed]
        if self.join.how != "inner":
            implied.append((self.this, UNMATCHED if self.this is not None else f"{THIS}{UNMATCHED}"))
        return References(streams=(self.join.table,), stores=named, stores_result=True, implied=tuple(implied))

    def rejection(self, word: str, shape: Shape) -> Rejection | None:
        return streams_only(f"{word}: stream", shape)

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require another stream with the same key and number of partitions."""
        side = self._side(context)
        columns = added_columns(context, self.join, shape, side)
        other: OtherStream | None = None
        if not shape.open and not side.open:
            if not context.has_key(step, shape) or not self._has_plain_keys(context, step, shape, side):
                return UNKNOWN
            partitions = side.partitions if side.rekey is None else max(shape.partitions, side.partitions)
            shape = context.rekeyed(shape, step, partitions)
            other = self._other(context, step, side, shape.partitions)
            check_co_partitioned(context, self.join, shape, other.after)
        plan = plan_columns(self.join, shape, side, columns)
        if other is None or not plan.complete:
            return plan.after
        this, theirs = self._stores(context, shape, side)
        unmatched = None if self.join.how == "inner" else self._unmatched(context, this, shape, side)
        operation = JoiningStreams(other, self.join.how, this, theirs, unmatched, plan.values)
        context.add(operation, shape, plan.joined, step)
        compute(context, step, self.join, plan, plan.joined)
        return plan.after

    def _side(self, context: FlowContext) -> Shape:
        """The shape of the other stream; UNKNOWN after a reported error."""
        name, topology = self.join.table, context.topology
        side = topology.shapes.get(name.text) or topology.topics.get(name.text)
        if side is not None and side.is_table:
            message = f"'{name.text}' is a table; `stream` needs a stream."
            hint = f"Join it with `table: {name.text}`, or read it through a flow with `to_stream`."
            context.report("HW501", name.position, message, hint)
            return UNKNOWN
        return side or UNKNOWN

    def _has_plain_keys(self, context: FlowContext, step: Step, shape: Shape, side: Shape) -> bool:
        """Whether the other stream has a key, and neither key has a window; otherwise reports it."""
        name = self.join.table
        if not side.key:
            message = f"'join' needs a key, and '{name.text}' has no key."
            hint = "Read it through a flow with `key_by`, and join that flow."
            context.report("HW504", name.position, message, hint)
            return False
        for stream, position, what in ((shape, step.word.position, "this stream"), (side, name.position, name.text)):
            if stream.windowed:
                message = f"The key of {what} has a window; streams are joined by keys without windows."
                context.report("HW501", position, message, "Put `key_by` with the columns to join by before it.")
                return False
        return True

    def _other(self, context: FlowContext, step: Step, side: Shape, partitions: int) -> OtherStream:
        """The other stream, behind a repartition topic if its key has changed."""
        name, flow = self.join.table.text, context.name.text
        pairs = [placed.operation for placed in context.operations if isinstance(placed.operation, StreamPair)]
        same = [pair for pair in pairs if pair.second.name == name]
        reader = f"{flow}.{name}" if not same else f"{flow}.{name}.{len(same) + 1}"
        if context.source is None:
            # `<flow>.<source>` is the name of an edge of a flow with several sources.
            reader = f"{flow}.join.{name}" if not same else f"{flow}.join.{name}.{len(same) + 1}"
        if side.rekey is None:
            return OtherStream(name, reader, side, side)
        shared = side.rekey.flow == name
        named = side.rekey.step if shared else name
        topic, after = context.repartition_topic(side, step, side.rekey, partitions, named, shared)
        return OtherStream(name, reader, side, after, PlacedOperation(topic, side, after, step.at))

    def _stores(self, context: FlowContext, shape: Shape, side: Shape) -> tuple[Store, Store]:
        stores = []
        for named, suffix, stream in ((self.this, THIS, shape), (self.other, OTHER, side)):
            store, model = context.store(named, "window", stream.key, stream.value, shape, suffix)
            retention = context.retention(model, self.window.kept_ms, "before, after and grace together")
            stores.append(replace(store, window=self.window, retention_ms=retention))
        return stores[0], stores[1]

    def _unmatched(self, context: FlowContext, this: Store, shape: Shape, side: Shape) -> Store:
        """The store of records without a match, for a left or outer join, with the settings of this side's store."""
        name = f"{this.name}{UNMATCHED}"
        if name in context.topology.default_stores or name in context.topology.stores:
            message = f"The store '{name}', for records of the join without a match, exists already."
            context.report("HW309", self.join.table.position, message, "Give that store another name.")
        context.topology.default_stores.add(name)
        model = context.topology.stores.get(this.name) if self.this is not None else None
        key = {**_unique(UNMATCHED_HEAD, shape.key), **shape.key, **_unique(UNMATCHED_TAIL, shape.key)}
        theirs = {f"{self.join.table.text}.{column}": type_ for column, type_ in side.value.items()}
        value = {**shape.value, **(theirs if self.join.how == "outer" else {})}
        return replace(declared_store(name, model, "key_value", key, value, shape.partitions), cleanup=None)


def _within(node: MappingNode) -> tuple[int, int] | None:
    """The range of matching records before and after a record, in ms; None after a reported error."""
    both = milliseconds(scalar(node, "within"))
    if both is not None:
        return both, both
    sides = mapping(node, "within")
    before, after = milliseconds(scalar(sides, "before")), milliseconds(scalar(sides, "after"))
    return None if before is None or after is None else (before, after)


def _unique(columns: Mapping[str, str], taken: Types) -> dict[str, str | None]:
    """Columns with `_` added to names that are in `taken`."""
    renamed: dict[str, str | None] = {}
    for name, type_ in columns.items():
        while name in taken:
            name += "_"
        renamed[name] = type_
    return renamed
