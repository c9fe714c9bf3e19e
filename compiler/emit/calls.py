"""Calls of constructors, with comments, as Python source."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from ...runtime.engine.building import Pipe, subtopology
from ...runtime.engine.sql_step import SqlStep
from ...runtime.engine.steps import PythonStep, Step
from ...runtime.environment import duration_text
from ...runtime.ir.functions import PythonCode, Udf
from ...runtime.ir.topology import GlobalTable, KafkaTopic, Store, Subtopology, Topic, Topology
from ...runtime.ir.windows import JoinWindow, SessionWindow, SlidingWindow, Window
from ..topology.graph import PythonStage, SubtopologyGraph, TopologyGraph
from .literals import FUNCTIONS, WIDTH, Code, Constants, Expression, Items, Text, call, dict_of, literal, tuple_of
from .template import content_hash

# Dataclasses of the runtime and of the graph, written as calls of their constructors.

_POSITIONAL = {
    "Agg": 3,
    "Aggregate": 2,
    "AggregateSessions": 2,
    "AggregateSliding": 2,
    "AggregateWith": 3,
    "Call": 4,
    "Decode": 3,
    "FinalResults": 2,
    "Flow": 2,
    "Process": 3,
    "GlobalTable": 1,
    "PluginRef": 2,
    "PythonFunction": 2,
    "Reduce": 3,
    "RoutedSink": 3,
    "Subtopology": 2,
    "Table": 2,
    "Materialize": 2,
    "KafkaCluster": 2,
    "KafkaTopic": 2,
    "KeyBy": 2,
    "Produce": 3,
    "StreamJoin": 4,
    "StreamTableJoin": 3,
    "TableTableJoin": 5,
    "Subscribe": 2,
    "Answer": 3,
    "ForeignKeyJoin": 3,
    "Forget": 2,
    "Select": 2,
    "Sink": 2,
    "Suppress": 2,
    "Source": 2,
    "Assignment": 0,
    "Topology": 0,
    "Udf": 4,
    "Settings": 0,
}
"""The number of positional arguments; one for classes not listed."""


class Declarations:
    """Writes declarations as code. Topics, stores, global tables and Python functions are written as constants.

    `classes` collects the names of the classes used.
    """

    def __init__(self, constants: Constants, file: str) -> None:
        """`file`: the topology's file. A location in it is written as its line alone."""
        self._constants = constants
        self._file = file
        self.classes: set[str] = set()

    def expression(self, value: Any) -> Expression:
        """A value as an expression: a constant, a call, or plain data."""
        if isinstance(value, Topic | Store | GlobalTable | Udf):
            return Code(self._constants[value])
        if isinstance(value, Window):
            return self._window(value)
        if isinstance(value, JoinWindow | SessionWindow | SlidingWindow):
            *lengths, grace = (Text(duration_text(getattr(value, field.name))) for field in fields(value))
            return self._named(value, "of", *lengths, grace=grace)
        if isinstance(value, PythonCode):
            self.classes.add("PythonCode")
            return Code(FUNCTIONS)
        if is_dataclass(value) and not isinstance(value, type):
            return self.call(value)
        if isinstance(value, tuple):
            return tuple_of(self.expression(item) for item in value)
        if isinstance(value, Mapping):
            return dict_of({str(key): self.expression(item) for key, item in value.items()})
        return literal(value)

    def call(self, declared: Any, **instead: Expression) -> Items:
        """The call of the constructor of `declared`, with the fields that differ from their defaults.

        `instead`: expressions to use for some fields.
        """
        name = type(declared).__name__
        self.classes.add(name)
        left = _POSITIONAL.get(name, 1)
        plain: list[Expression] = []
        named: dict[str, Expression] = {}
        for field in fields(declared):
            if field.name not in instead and _is_default(declared, field):
                left = 0
                continue
            expression = instead.get(field.name) or self._field(declared, field.name)
            if len(plain) < left:
                plain.append(expression)
            else:
                named[field.name] = expression
        return call(name, *plain, **named)

    def declaration(self, declared: Any) -> Items:
        """The call that declares a constant."""
        if not isinstance(declared, Topic) or declared.kafka is None:
            return self.call(declared)
        self.classes.add("raw_topic")
        kafka = declared.kafka
        plain = [kafka.name] if kafka.cluster == KafkaTopic("").cluster else [kafka.name, kafka.cluster]
        named: dict[str, Expression] = {} if declared.on_error == "fail" else {"on_error": Text(declared.on_error)}
        if not kafka.headers:
            named["headers"] = literal(False)
        return call("raw_topic", *map(Text, plain), **named)

    def location(self, at: str) -> Expression:
        """`file:line`, or the line alone for a location in the topology's file."""
        file, _, line = at.rpartition(":")
        return Code(line) if file == self._file else literal(at)

    def _window(self, window: Window) -> Expression:
        """A window with the keywords of the YAML: `Window.tumbling("1h", grace="10m")`."""
        size, advance, grace = (
            Text(duration_text(length)) for length in (window.size_ms, window.advance_ms, window.grace_ms)
        )
        if window.size_ms == window.advance_ms:
            return self._named(window, "tumbling", size, grace=grace)
        return self._named(window, "hopping", size, advance=advance, grace=grace)

    def _named(self, value: Any, constructor: str, *arguments: Expression, **named: Expression) -> Expression:
        """The call of another constructor of a class, such as `Window.tumbling`."""
        name = type(value).__name__
        self.classes.add(name)
        return call(f"{name}.{constructor}", *arguments, **named)

    def _field(self, declared: Any, name: str) -> Expression:
        value = getattr(declared, name)
        if name.endswith("_ms") and type(value) is int:
            self.classes.add("parse_duration")
            return call("parse_duration", Text(duration_text(value)))
        return self.location(value) if name == "at" else self.expression(value)


def _is_default(declared: Any, field: Field[Any]) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return default is not MISSING and bool(getattr(declared, field.name) == default)


# Comments of generated code: the description of a flow or table in the YAML, above its first step.


class Notes:
    """The comments of one function: the descriptions of flows and tables, once each."""

    def __init__(self, graph: TopologyGraph) -> None:
        self._file = graph.file
        self._notes = graph.notes
        self._written: set[str] = set()

    def at(self, location: str, indent: int) -> tuple[str, ...]:
        """The lines of the comment above a step at `file:line`; none if its flow has a comment already."""
        file, _, line = location.rpartition(":")
        notes = [note for note in self._notes if file == self._file and note.line <= int(line)]
        if not notes or not notes[-1].description.strip() or notes[-1].name in self._written:
            return ()
        self._written.add(notes[-1].name)
        return comment_lines(f"{notes[-1].name}: {notes[-1].description}", indent)


def comment_lines(text: str, indent: int) -> tuple[str, ...]:
    """The lines of a comment."""
    shown = "".join(character if character.isprintable() else " " for character in " ".join(text.split()))
    return tuple(
        f"# {line}" for line in textwrap.wrap(shown, WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False)
    )


# The topology that generated code declares, without writing or loading the code.


def declared_topology(graph: TopologyGraph) -> Topology:
    """The topology, for comparisons and descriptions. It cannot run, because it lacks the columns that edges keep."""
    return topology_of(graph, tuple(_declared(part, graph.file) for part in graph.subtopologies))


def topology_of(graph: TopologyGraph, subtopologies: tuple[Subtopology, ...] = ()) -> Topology:
    """The declaration of a topology with these subtopologies."""
    return Topology(
        project=graph.project,
        name=graph.name,
        version=graph.version,
        content_hash=content_hash(graph),
        subtopologies=subtopologies,
        assignment=graph.assignment,
        restore=graph.restore,
        was=graph.was,
    )


def _declared(part: SubtopologyGraph, file: str) -> Subtopology:
    steps = tuple(map(_step, part.stages))
    return subtopology(part.number, part.name, file=file, on_error=part.step_policies)(lambda _: Pipe(steps))


def _step(stage: PythonStage | SqlStep) -> Step:
    return PythonStep(stage.nodes) if isinstance(stage, PythonStage) else stage
