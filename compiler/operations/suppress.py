"""`suppress`: delays changes of a table, until their windows close or for a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

from ...runtime.engine.operators import tables
from ...runtime.engine.operators.tables import WhenFull
from ...runtime.environment import duration_text
from ...runtime.ir.topology import Store
from ..entries import Reader, integer, milliseconds, scalar, text
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import FlowContext, References, Rejection, Step, StepAction
from .base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from .base.site import UNKNOWN, PythonLayout, Shape, Site

_ENDING = "-suppress"
"""The ending of the name of an unnamed store, behind the flow's name."""


@dataclass(frozen=True)
class SuppressStep(StepAction):
    """`suppress:`. `wait_ms`: how long it delays changes; None: until windows close."""

    wait_ms: int | None
    max_records: int | None
    when_full: WhenFull
    store: ScalarNode | None

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if not isinstance(node, MappingNode) or not ("until" in node or "for" in node):
            return None
        until = "until" in node
        full = scalar(node, "when_full")
        if until and full is not None and full.text == "emit":
            message = "A window has no final result before it closes, so `suppress` cannot emit it early."
            hint = "Write `when_full: fail`, which stops the task, or remove `max_records`."
            reader.diagnostics.add("HW204", full.position, message, hint)
            return None
        wait = None if until else milliseconds(scalar(node, "for"))
        if not until and wait is None:
            return None
        most = integer(node, "max_records", None)
        when_full = cast(WhenFull, text(node, "when_full", "fail" if until and most is not None else "emit"))
        return cls(wait, most, when_full, scalar(node, "store"))

    def references(self) -> References:
        named = (self.store,) if self.store is not None else ()
        return References(stores=named, stores_result=True, store_ending=_ENDING)

    def rejection(self, word: str, shape: Shape) -> Rejection | None:
        if shape.is_table:
            return None
        hint = "Put `to_table` before it."
        if shape.windowed:
            hint = "Put it right behind the aggregate; or remove it, if the aggregate has `emit: on_close`."
        return Rejection("HW501", f"'{word}' is for tables; this is a stream.", hint)

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require windows with a known closing time, if it waits until they close."""
        if shape.open:
            return shape
        final = self.wait_ms is None
        wait = self.wait_ms if self.wait_ms is not None else self._closing(context, step, shape)
        if wait is None:
            return UNKNOWN
        type_ = "window_changes" if final else "changes"
        store, _ = context.store(self.store, type_, shape.key, shape.value, shape, _ENDING)
        # Emitted changes have waited already, so they are not collapsed again.
        after = replace(shape, store=None, emit="each_update", kind="stream" if final else "table")
        return context.add(Suppression(store, wait, self.max_records, self.when_full), shape, after, step)

    def _closing(self, context: FlowContext, step: Step, shape: Shape) -> int | None:
        """How long after its end a window is closed (ms); None if that was reported as not known."""
        if shape.windowed and shape.closes_ms is not None:
            return shape.closes_ms
        if shape.windowed:
            message = "It is unknown when the windows of this table close: their aggregate is not in this topology."
            hint = "Put `suppress` behind the aggregate, before its rows are written to a topic."
            if shape.forgets:
                message = "A join by a foreign key may emit a row after its window has closed: its responses come late."
                hint = "Write `for`, with how long a change waits. Or replace the join: `suppress`, `key_by`, `join`."
        else:
            message = "The rows of this table have no windows that close."
            hint = "Put a `window` step before the aggregate, or write `for`, with how long a change waits."
        context.report("HW501", step.word.position, message, hint)
        return None


@dataclass(frozen=True)
class Suppression(PythonOperation):
    """Delays changes in `store` by `wait_ms`, counted from the window's end if the store's type is `window_changes`."""

    store: Store
    wait_ms: int
    max_records: int | None
    when_full: WhenFull

    has_effect = True
    null_keys = "dropped"

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Every single change. A waiting change keeps the row that the first waiting change of its key has replaced."""
        return EVERY_CHANGE if self.store.type == "window_changes" else TableUse("repartition")

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        if self.store.type == "window_changes":
            what = "until window_closes"
        else:
            what = f"for {duration_text(self.wait_ms)}"
        most = "" if self.max_records is None else f", max_records {self.max_records}, when_full {self.when_full}"
        return Description(f"suppress {what}{most}", (Processor("KTABLE-SUPPRESS", stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        site.declare(self.store)
        old = site.output.shape.is_table and site.changes(frozenset(), True)[1]
        node = tables.Suppress(
            site.input.name, self.store, self.wait_ms, self.max_records, self.when_full, old, site.at
        )
        return PythonLayout((node,), (site.whole,))
