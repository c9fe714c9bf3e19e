"""Checks processors that share a store: whether they can take turns, record by record, in the same tasks."""

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
from .description import between
from .graph import live_columns
from .operation_graph import Vertex, Wired
from .sharing import Group, all_before, circles, shared_names, sharing, ways_around
from .wiring import wire

_ALLOWED = (
    "Between them may stand: `filter`, `select`, `with_columns`, `drop`, `branch`, `explode` and `key_by` that call no "
    "Python function, and merges. Do in the class what other steps do."
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
    for topic in circles(wired) if not diagnostics.errors else ():
        store = next(iter(last.values()))
        message = f"What shares '{store.text}' is one subtopology, which would both write and read '{topic}'."
        hint = "Repartition before all of the processors that share it, or behind all of them."
        diagnostics.add("HW543", store.position, message, hint)
        return


def _uses(model: TopologyModel) -> Iterator[tuple[str, ScalarNode]]:
    """The stores of processors, each with the place of the step."""
    for flow in model.flows.values():
        for step in flow.steps:
            if isinstance(step.action, ProcessStep):
                yield from ((step.word.position.line_text, store) for store in step.action.stores)


class _Check:
    def __init__(self, model: TopologyModel, wired: Wired, group: Group, diagnostics: Diagnostics) -> None:
        self._model = model
        self._wired = wired
        self._group = group
        self._processors = [vertex for vertex in group if isinstance(vertex.operation, Processing)]
        self._diagnostics = diagnostics
        self._needed = live_columns(wired)

    def run(self) -> None:
        first = self._processors[0]
        for vertex in self._processors:
            if isinstance(vertex.operation, Processing) and vertex.operation.batches:
                what = "gets many records at once, so it cannot see what others store in between"
                self._report(
                    vertex, f"`process_batch` {what}.", "Write `process(record)`, or give it a store of its own."
                )
            mine, theirs = (self._wired.shapes[each.inputs[0]].partitions for each in (vertex, first))
            if mine != theirs:
                where = f"of {mine} partitions here, and of {theirs} in the flow '{first.flow}'"
                hint = f"Put `repartition: {{partitions: {theirs}}}` before this step."
                self._report(vertex, f"The records are {where}, so there would not be the same tasks.", hint)
        self._check_keys()
        self._check_between()

    def _check_between(self) -> None:
        """Report what stands between processors and cannot be done in their task, record by record."""
        reported: set[int] = set()
        for before, vertex, other in ways_around(self._wired, self._group):
            processor = self._behind(vertex)
            if processor.number not in reported:
                reported.add(processor.number)
                message = (
                    f"It gets records from a processor of the flow '{before.flow}' that shares its stores, behind "
                    f"{_step_text(other)}: so they cannot take turns, record by record."
                )
                self._report(processor, message, _ALLOWED)
        for vertex in self._group if not reported else ():
            if reason := self._kept(vertex):
                message = (
                    f"{_step_text(vertex)} stands before it, behind another processor of the store. Tasks cannot "
                    f"compute this, record by record, only Spark SQL can: {reason}."
                )
                self._report(self._behind(vertex), message, "Write it otherwise, or do it in the class.")

    def _behind(self, vertex: Vertex) -> Vertex:
        """The first processor that records of a vertex come to; itself, if it is one."""
        return next(each for each in self._processors if vertex in all_before(self._wired, each))

    def _kept(self, vertex: Vertex) -> str:
        """What keeps a step with Spark SQL; empty if tasks can do it."""
        # Loaded where it is needed: expressions load Arrow.
        from ...runtime.engine.in_task import computing
        from ...runtime.expressions.promotion import UnprovenError

        if isinstance(vertex.operation, PythonOperation):
            return ""
        shapes = self._wired.shapes
        inputs = tuple(LiveEdge(f"{edge}", shapes[edge], tuple(shapes[edge].value)) for edge in vertex.inputs)
        outputs = tuple(Output(self._needed[edge], shapes[edge]) for edge in vertex.outputs)
        site = Site(inputs, (), self._needed[vertex.inputs[0]], outputs, vertex.at, Declared(), _no_changes)
        laid = between(vertex.operation, site)
        try:
            for step in laid.steps if isinstance(laid, SqlLayout) else ():
                computing(step, inputs[0].flow, step.makes)
            return ""
        except UnprovenError as error:
            return error.reason

    def _check_keys(self) -> None:
        """Warn of keys of other types. Records with a key that is not that of their partition are passed over."""
        shapes = [(vertex, self._wired.shapes[vertex.inputs[0]]) for vertex in self._processors]
        placed = [
            (vertex, _key_text(shape)) for vertex, shape in shapes if shape.rekey is None and shape.partitions > 1
        ]
        for vertex, mine in placed:
            first, theirs = placed[0]
            if mine != theirs:
                store = self._store(vertex)
                message = (
                    f"The store '{store.text}' is shared by records with a key of type {mine} here, and of type "
                    f"{theirs} in the flow '{first.flow}': they are spread otherwise, so rows that belong together may "
                    "be in two tasks."
                )
                hint = "Put `key_by` and `repartition` before one of them, so that both have the same key."
                self._diagnostics.add("HW544", store.position, message, hint)

    def _report(self, vertex: Vertex, message: str, hint: str) -> None:
        store = self._store(vertex)
        self._diagnostics.add("HW543", store.position, f"The store '{store.text}' cannot be shared. {message}", hint)

    def _store(self, vertex: Vertex) -> ScalarNode:
        """The first store of a processor that it shares, as its step names it."""
        shared = _shared(self._processors)
        stores = [store for place, store in _uses(self._model) if place == vertex.at]
        return next((each for each in stores if each.text in shared), stores[0])


def _step_text(vertex: Vertex) -> str:
    """A step as it is written, and its place; or the topic that is read."""
    if isinstance(vertex.operation, Reading):
        return f"the topic '{vertex.operation.topic.name}'"
    text = vertex.operation.describe(of_table=False, lookups=()).text
    place = f" in line {vertex.at.rpartition(':')[2]}" if vertex.at else ""
    return f"`{text}`{place}" if text else f"a step{place}"


def _no_changes(positive: frozenset[str], deletes: bool) -> NoReturn:  # noqa: ARG001
    raise AssertionError("between processors there is no table")


def _key_text(shape: Shape) -> str:
    return ", ".join(str(kind) for kind in shape.plain_key.values()) or "none"


def _shared(processors: Sequence[Vertex]) -> set[str]:
    names = [name for vertex in processors for name in shared_names(vertex)]
    return {name for name in names if names.count(name) > 1}
