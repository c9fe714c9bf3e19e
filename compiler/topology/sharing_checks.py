"""Checks that processors with a shared store can process records in turns, in the same tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from ..diagnostics import Diagnostics
from ..model.project import TopologyModel
from ..operations.base.context import CheckedTopology
from ..operations.base.operation import PythonOperation
from ..operations.base.site import Declared, LiveEdge, Output, Shape, Site, SqlLayout
from ..operations.process import Processing, ProcessStep
from ..reading.source import ScalarNode
from .connections import Reading
from .description import in_python_stage
from .graph import live_columns
from .operation_graph import GraphOperation, OperationGraph
from .sharing import Group, all_before, cycles, detours, shared_names, sharing
from .wiring import wire

_ALLOWED = (
    "Allowed between them are merges, and `filter`, `select`, `with_columns`, `drop`, `branch`, `explode` and `key_by` "
    "without Python functions. Move other steps into the class."
)


def check_shared_stores(
    model: TopologyModel, topology: CheckedTopology, application: str, diagnostics: Diagnostics
) -> None:
    """Report processors that cannot share their stores. `topology`: without other errors."""
    named = [store.text for _, store in _uses(model)]
    if len(named) == len(set(named)):
        return
    wired = wire(topology, application)
    for group in sharing(wired):
        _Check(model, wired, group, diagnostics).run()
    last = {store.text: store for _, store in _uses(model) if named.count(store.text) > 1}
    for topic in cycles(wired) if not diagnostics.errors else ():
        store = next(iter(last.values()))
        message = f"The processors that share '{store.text}' are one subtopology, which would write and read '{topic}'."
        hint = "Repartition before all of these processors, or behind all of them."
        diagnostics.add("HW543", store.position, message, hint)
        return


def _uses(model: TopologyModel) -> Iterator[tuple[str, ScalarNode]]:
    """The stores of processors, with the location of the step."""
    for flow in model.flows.values():
        for step in flow.steps:
            if isinstance(step.action, ProcessStep):
                yield from ((step.word.position.line_text, store) for store in step.action.stores)


class _Check:
    def __init__(self, model: TopologyModel, wired: OperationGraph, group: Group, diagnostics: Diagnostics) -> None:
        self._model = model
        self._wired = wired
        self._group = group
        self._processors = [op for op in group if isinstance(op.operation, Processing)]
        self._diagnostics = diagnostics
        self._needed = live_columns(wired)

    def run(self) -> None:
        first = self._processors[0]
        for op in self._processors:
            if isinstance(op.operation, Processing) and op.operation.batches:
                what = "gets many records at once, so it cannot see rows that others store in between"
                self._report(op, f"`process_batch` {what}.", "Write `process(record)`, or give it its own store.")
            mine, theirs = (self._wired.shapes[processor.inputs[0]].partitions for processor in (op, first))
            if mine != theirs:
                message = f"The input has {mine} partitions here, and {theirs} in the flow '{first.flow}'."
                self._report(op, message, f"Put `repartition: {{partitions: {theirs}}}` before this step.")
        self._check_keys()
        self._check_between()

    def _check_between(self) -> None:
        """Report operations between processors that a task cannot do record by record."""
        reported: set[int] = set()
        for before, op, other in detours(self._wired, self._group):
            processor = self._behind(op)
            if processor.number not in reported:
                reported.add(processor.number)
                message = (
                    f"It gets records from a processor of the flow '{before.flow}' that shares its stores, behind "
                    f"{_step_text(other)}, so they cannot process records in turns."
                )
                self._report(processor, message, _ALLOWED)
        for op in self._group if not reported else ():
            if reason := self._kept(op):
                message = (
                    f"{_step_text(op)} is between it and another processor of the store. Tasks cannot compute this "
                    f"record by record, only Spark SQL can: {reason}."
                )
                self._report(self._behind(op), message, "Change the expression, or move the step into the class.")

    def _behind(self, op: GraphOperation) -> GraphOperation:
        """The first processor downstream of an operation, or the processor itself."""
        return next(processor for processor in self._processors if op in all_before(self._wired, processor))

    def _kept(self, op: GraphOperation) -> str:
        """Why only Spark SQL can compute a step; empty if tasks can."""
        # Imported here, because expressions import Arrow.
        from ...runtime.engine.execution.computing import computing
        from ...runtime.expressions.promotion import UnprovenError

        if isinstance(op.operation, PythonOperation):
            return ""
        shapes = self._wired.shapes
        inputs = tuple(LiveEdge(f"{edge}", shapes[edge], tuple(shapes[edge].value)) for edge in op.inputs)
        outputs = tuple(Output(self._needed[edge], shapes[edge]) for edge in op.outputs)
        site = Site(inputs, (), self._needed[op.inputs[0]], outputs, op.at, Declared(), _no_changes)
        layout = in_python_stage(op.operation, site)
        try:
            for step in layout.steps if isinstance(layout, SqlLayout) else ():
                computing(step, inputs[0].flow, step.makes)
            return ""
        except UnprovenError as error:
            return error.reason

    def _check_keys(self) -> None:
        """Warn of keys of different types. Streams with a changed key are not checked."""
        shapes = [(op, self._wired.shapes[op.inputs[0]]) for op in self._processors]
        placed = [(op, _key_text(shape)) for op, shape in shapes if shape.rekey is None and shape.partitions > 1]
        for op, mine in placed:
            first, theirs = placed[0]
            if mine != theirs:
                store = self._store(op)
                message = (
                    f"Records that share the store '{store.text}' have a key of type {mine} here, and of type {theirs} "
                    f"in the flow '{first.flow}': equal keys may be in different partitions, so in two tasks."
                )
                hint = "Put `key_by` and `repartition` before one of them, so that both have the same key."
                self._diagnostics.add("HW544", store.position, message, hint)

    def _report(self, op: GraphOperation, message: str, hint: str) -> None:
        store = self._store(op)
        self._diagnostics.add("HW543", store.position, f"The store '{store.text}' cannot be shared. {message}", hint)

    def _store(self, op: GraphOperation) -> ScalarNode:
        """The first shared store of a processor, as named in its step."""
        shared = _shared(self._processors)
        stores = [store for at, store in _uses(self._model) if at == op.at]
        return next((store for store in stores if store.text in shared), stores[0])


def _step_text(op: GraphOperation) -> str:
    """A step as written, with its line; for a source, the topic."""
    if isinstance(op.operation, Reading):
        return f"the topic '{op.operation.topic.name}'"
    text = op.operation.describe(of_table=False, lookups=()).text
    line = f" in line {op.at.rpartition(':')[2]}" if op.at else ""
    return f"`{text}`{line}" if text else f"a step{line}"


def _no_changes(positive: frozenset[str], deletes: bool) -> NoReturn:  # noqa: ARG001
    raise AssertionError("there is no table between processors")


def _key_text(shape: Shape) -> str:
    return ", ".join(str(kind) for kind in shape.plain_key.values()) or "none"


def _shared(processors: Sequence[GraphOperation]) -> set[str]:
    names = [name for op in processors for name in shared_names(op)]
    return {name for name in names if names.count(name) > 1}
