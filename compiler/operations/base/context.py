"""Steps: their interface, and the contexts in which they are checked and become operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from ....runtime.environment import duration_text
from ....runtime.expressions.types import holds_map
from ....runtime.ir.topology import GlobalTable, Store, Topic
from ...diagnostics import Diagnostics, Position
from ...entries import Pairs, Reader, StoreModel, check_no_processors, declared_store, entries
from ...language.expressions import Expression, Scope
from ...language.type_checker import TypeChecker
from ...language.udfs import ProjectFunctions, Udfs, read, typed_expressions
from ...reading.source import Node, ScalarNode
from .operation import Operation, PythonOperation
from .site import Rekey, Shape

# Checked topologies: the result of the checks, from which the graph is built.
#
# A flow is a sequence of operations with the shapes of their inputs and outputs, including repartition topics. The
# engine of an operation and the columns on an edge are chosen later, by the wiring.


@dataclass(frozen=True)
class Repartition:
    """A repartition topic. The wiring makes a sink and a source of it.

    `of`: the flow that ends with the topic, if the readers of that flow share it; None if it belongs to the reading
    flow. `edge`: the name of the edge that reads it, if it differs from the flow's.
    """

    topic: str
    partitions: int
    of: str | None = None
    edge: str | None = None


@dataclass(frozen=True)
class PlacedOperation:
    """An operation of a flow, with its location (`file:line`), the step's name, and the shapes before and after it."""

    operation: Operation | Repartition
    before: Shape
    after: Shape
    at: str = ""
    name: str = ""


@dataclass(frozen=True)
class CheckedRoute:
    """How a flow chooses one of its topics for each record.

    `by`: the expression of the topic's name. `operations`: compute it behind the end of the flow.
    """

    by: Expression
    operations: tuple[PlacedOperation, ...]


@dataclass(frozen=True)
class CheckedFlow:
    """A flow without errors.

    `sources`: the names of topics, tables and flows. `to`: the topics that it writes, several only with a `route`.
    `at`, `to_at`: `file:line`. `start`: the position in its topics where it starts, as in the YAML; None: the first
    records.
    """

    name: str
    sources: tuple[str, ...]
    operations: tuple[PlacedOperation, ...]
    before: Shape
    after: Shape
    to: tuple[Topic, ...]
    at: str
    to_at: str = ""
    start: str | None = None
    route: CheckedRoute | None = None


@dataclass(frozen=True)
class CheckedTable:
    """An entry of `tables:`. `global_table`: set if the table is global."""

    name: str
    topic: Topic
    shape: Shape
    store: Store
    at: str
    global_table: GlobalTable | None = None


@dataclass(frozen=True)
class CheckedTopology:
    """A topology with checked flows and tables.

    `flows`: in an order in which a flow follows the flows it reads. `declared`: their names in the order of the file.
    `stores`: the names of declared stores, and of stores named after a flow or a table.
    """

    name: str
    file: str
    declared: tuple[str, ...]
    tables: Mapping[str, CheckedTable]
    flows: Mapping[str, CheckedFlow]
    topics: Mapping[str, Topic]
    stores: frozenset[str] = frozenset()


# The context of checks: names, findings and the operations so far.

Columns = Sequence[tuple[ScalarNode, ScalarNode]]

_MAX_COLUMNS = 400_000


@dataclass
class Carried:
    """The total number of columns of all operations of a project. A step carries the columns of those before it.

    Steps beyond a limit are not checked, so a short file cannot cause much work.
    """

    columns: int = 0
    reported: bool = False

    @property
    def too_many(self) -> bool:
        """Whether the limit is exceeded."""
        return self.columns > _MAX_COLUMNS


@dataclass
class TopologyContext:
    """One topology during the checks.

    `names`: of its tables and flows. `shapes`: of its checked tables and flows. `topics`: the shapes of the topics
    known so far. `stores`: the declared stores. `complete`: all of its names are known. `repartitions`: repartition
    topics by name, with their partitions and, for a shared one, the flow that ends with it. `default_stores`: names of
    stores that are not declared. `regrouped`: flows that get the changes of a regrouped table.
    """

    application: str
    names: Collection[str]
    stores: Mapping[str, StoreModel]
    carried: Carried
    topics: Mapping[str, Shape] = field(default_factory=dict)
    complete: bool = True
    tables: dict[str, CheckedTable] = field(default_factory=dict)
    flows: dict[str, CheckedFlow] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    repartitions: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    default_stores: set[str] = field(default_factory=set)
    regrouped: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class StepLocation:
    """The location of a step: its keyword in the file, and its optional name."""

    word: ScalarNode
    name: ScalarNode | None

    @property
    def at(self) -> str:
        """`file:line`, as in generated code."""
        return self.word.position.line_text


@dataclass
class FlowContext:
    """One flow during the checks.

    `source`: the name of its source, if it has exactly one. `udfs`: the functions that its expressions may call.
    """

    topology: TopologyContext
    name: ScalarNode
    diagnostics: Diagnostics
    checker: TypeChecker
    functions: ProjectFunctions
    udfs: Udfs = field(default_factory=dict)
    operations: list[PlacedOperation] = field(default_factory=list)
    source: str | None = None

    def add(
        self,
        operation: Operation | Repartition,
        before: Shape,
        after: Shape,
        step: StepLocation | None = None,
        at: str = "",
    ) -> Shape:
        """Add an operation. Returns the shape after it."""
        self.topology.carried.columns += len(after.key) + len(after.value)
        name = step.name.text if step and step.name else ""
        self.operations.append(PlacedOperation(operation, before, after, step.at if step else at, name))
        return after

    def report(self, code: str, position: Position, message: str, hint: str | None = None) -> None:
        """Add a finding."""
        self.diagnostics.add(code, position, message, hint)

    def expressions(self, scalars: Sequence[ScalarNode], scope: Scope) -> list[Expression | None]:
        """Expressions over one row, with their types; None for an expression with a reported error."""
        scope = replace(scope, udfs=self.udfs)
        expressions = [read(scalar, scope, self.diagnostics) for scalar in scalars]
        valid = [expression for expression in expressions if expression is not None]
        typed = iter(typed_expressions(valid, scope, self.checker, self.diagnostics))
        return [None if expression is None else next(typed) for expression in expressions]

    def columns(self, columns: Columns, scope: Scope) -> dict[str, Expression | None]:
        """Named expressions over one row. Reports names that are the same to Spark SQL."""
        names = [name for name, _ in columns]
        self.distinct(names)
        return dict(
            zip((name.text for name in names), self.expressions([sql for _, sql in columns], scope), strict=True)
        )

    def predicate(self, scalar: ScalarNode, shape: Shape) -> Expression | None:
        """A boolean expression over one row; None if an error was reported."""
        predicate = self.expressions([scalar], scope_of(shape))[0]
        if predicate is not None and predicate.type not in (None, "boolean"):
            hint = "`||` concatenates strings; write `or`." if "||" in predicate.sql.text else None
            message = f"This must be a boolean; it is of type {predicate.type}."
            self.report("HW412", predicate.position, message, hint)
            return None
        return predicate

    def distinct(self, names: Sequence[ScalarNode], present: Mapping[str, object] | None = None) -> None:
        """Report names that differ from others only in case."""
        seen = {name.casefold(): name for name in present or ()}
        for name in names:
            twin = seen.setdefault(name.text.casefold(), name.text)
            if twin != name.text:
                message = f"'{name.text}' and '{twin}' are the same column to Spark SQL."
                self.report("HW516", name.position, message)

    def too_much(self, step: StepLocation) -> bool:
        """Whether the project is too large to check from this step on, which is reported once."""
        carried = self.topology.carried
        if carried.too_many and not carried.reported:
            carried.reported = True
            message = f"All steps up to here have more than {_MAX_COLUMNS:,} columns in total."
            self.report("HW208", step.word.position, message, "Split the project, or `select` fewer columns early.")
        return carried.too_many

    def has_key(self, step: StepLocation, shape: Shape) -> bool:
        """Whether the input has a key, for a step that needs one; otherwise reports it."""
        if shape.key:
            return True
        message = f"'{step.word.text}' needs a key, and '{self.name.text}' has no key here."
        self.report("HW504", step.word.position, message, "Put a `key_by` step before it.")
        return False

    def store(
        self,
        named: ScalarNode | None,
        type_: str,
        key: Mapping[str, str | None],
        value: Mapping[str, str | None],
        shape: Shape,
        ending: str = "",
    ) -> tuple[Store, StoreModel | None]:
        """The store of a step: the declared one, or a default one, named after the flow with an `ending`."""
        name = named.text if named is not None else self.name.text + ending
        model = self.topology.stores.get(name) if named is not None else None
        if named is None:
            if name in self.topology.default_stores or name in self.topology.stores:
                message = f"The store '{name}', named after the flow, exists already."
                position = self.name.position
                word = "stores" if ending and type_ == "window" else "store"
                self.report("HW309", position, message, f"Name a declared store in the step's `{word}`.")
            self.topology.default_stores.add(name)
        elif model is not None and model.type not in (None, type_):
            step = {"window": "A windowed aggregate", "session": "An aggregate of sessions"}.get(type_, "This step")
            step = "A join of streams" if ending and type_ == "window" else step
            message = f"{step} needs a {type_} store; '{name}' is a {model.type} store."
            hint = f"Write `type: {type_}` at '{name}', or name another store."
            if type_ in ("changes", "window_changes"):  # types without a name in the language
                message = f"`suppress` needs a store without a `type`; '{name}' is a {model.type} store."
                hint = "Remove its `type`."
            self.report("HW506", named.position, message, hint)
        if model is not None:
            check_no_processors(model, type_, self.diagnostics)
        return declared_store(name, model, type_, key, value, shape.partitions), model

    def retention(self, model: StoreModel | None, needed_ms: int, covered: str) -> int | None:
        """The declared retention of a store (ms). Reports one that is shorter than needed for what it has to cover."""
        if model is None or model.retention is None or model.retention_ms is None:
            return None
        if model.retention_ms < needed_ms:
            message = f"The retention of '{model.name.text}' ({model.retention.text}) is shorter than {covered}."
            hint = f"Set it to at least {duration_text(needed_ms)}, or remove it."
            self.report("HW507", model.retention.position, message, hint)
        return model.retention_ms

    def rejects_map(self, type_: str | None, position: Position, what: str = "this") -> bool:
        """Whether a key column has a type with a map, which is reported."""
        if type_ is None or not holds_map(type_):
            return False
        self.report("HW412", position, f"A key cannot contain a map; {what} has type {type_}.")
        return True

    def rekeyed(self, shape: Shape, at: StepLocation, partitions: int | None = None) -> Shape:
        """The stream in the partitions of its key, after a repartition topic if the key has changed."""
        if shape.rekey is None or shape.open:
            return shape
        first_join = not self.operations and partitions is not None and self.source == shape.rekey.flow
        return self.repartition(shape, at, shape.rekey, partitions or shape.partitions, first_join)

    def repartition(
        self, shape: Shape, step: StepLocation, rekey: Rekey, partitions: int, shared: bool = False
    ) -> Shape:
        """The stream after a repartition topic, which is named after flow and step.

        `shared`: the flow that changed the key ends with the topic. All readers that begin with a join share it.
        """
        named = rekey.step if rekey.flow == (rekey.flow if shared else self.name.text) else None
        topic, after = self.repartition_topic(shape, step, rekey, partitions, named, shared)
        return self.add(topic, shape, after, step)

    def repartition_topic(
        self, shape: Shape, step: StepLocation, rekey: Rekey, partitions: int, named: str | None, shared: bool
    ) -> tuple[Repartition, Shape]:
        """A repartition topic with `named` in its name, and the shape of the stream behind it."""
        owner = rekey.flow if shared else self.name.text
        topic = "-".join([self.topology.application, owner, *([named] if named else []), "repartition"])
        existing = self.topology.repartitions.get(topic)
        if existing is not None and not (shared and existing[1] == owner):
            hint = "Give one of the steps a `name`: it becomes part of the topic's name."
            message = f"The flow '{owner}' already has a repartition topic '{topic}'."
            self.report("HW509", rekey.position, message, hint)
        elif existing is not None and existing[0] != partitions:
            message = f"'{topic}' has {existing[0]} partitions for another join, this one needs {partitions}."
            hint = "Put a `repartition` step with a name before the join."
            self.report("HW503", step.word.position, message, hint)
        self.topology.repartitions.setdefault(topic, (partitions, owner if shared else None))
        after = replace(shape, rekey=None, partitions=partitions)
        return Repartition(topic, partitions, owner if shared else None), after


def scope_of(shape: Shape) -> Scope:
    """The columns that expressions on a flow of this shape may read."""
    return Scope(shape.key, shape.value, open=shape.open)


def complete(columns: Mapping[str, Expression | None]) -> dict[str, Expression] | None:
    """The columns; None if one of them has a reported error."""
    valid = {name: expression for name, expression in columns.items() if expression is not None}
    return valid if len(valid) == len(columns) else None


# Operations with a second input stream.


@dataclass(frozen=True)
class OtherStream:
    """The second input stream: a topic or a flow.

    `reader`: the name of its edge. `before`: its shape when it is read. `after`: its shape behind `repartition`, the
    repartition topic that it needs if its key has changed.
    """

    name: str
    reader: str
    before: Shape
    after: Shape
    repartition: PlacedOperation | None = None

    @property
    def shared(self) -> str | None:
        """The flow that ends with the repartition topic, if other readers share it."""
        topic = self.repartition.operation if self.repartition is not None else None
        return topic.of if isinstance(topic, Repartition) else None


class StreamPair(PythonOperation):
    """An operation with two inputs: the stream of its flow, and another one."""

    @property
    @abstractmethod
    def second(self) -> OtherStream:
        """The other stream."""


def second_streams(flow: CheckedFlow) -> Iterator[OtherStream]:
    """The second input streams of a flow's operations, in order."""
    for placed in flow.operations:
        if isinstance(placed.operation, StreamPair):
            yield placed.operation.second


def read_by(flow: CheckedFlow) -> tuple[str, ...]:
    """The inputs of a flow: its sources, and the streams it joins."""
    return (*flow.sources, *(stream.name for stream in second_streams(flow)))


# Steps: entries of `steps:`, read from the YAML and checked against their input.


@dataclass(frozen=True)
class References:
    """The names in a step: the tables and streams it joins, its stores, the flows it makes.

    `implied`: unnamed stores of a step with several stores, as pairs of a name (None for the flow's) and an ending.
    `stores_result`: the step keeps its result in a store: the one in `stores`, or one named after the flow with
    `store_ending`. `shares`: the stores may be shared with other steps that allow it.
    """

    tables: tuple[ScalarNode, ...] = ()
    streams: tuple[ScalarNode, ...] = ()
    stores: tuple[ScalarNode, ...] = ()
    flows: tuple[ScalarNode, ...] = ()
    implied: tuple[tuple[ScalarNode | None, str], ...] = ()
    stores_result: bool = False
    store_ending: str = ""
    shares: bool = False


@dataclass(frozen=True)
class Rejection:
    """Why a step does not accept an input."""

    code: str
    message: str
    hint: str


class StepAction(ABC):
    """The action of a step, a frozen dataclass for each kind of step.

    `kinds`: other classes for steps with the same keyword. `accepts_tables`: the input may be a table.
    `passes_tombstones`: the step accepts deletions of rows that did not exist, which a filter of a table makes.
    """

    kinds: ClassVar[tuple[type[StepAction], ...]] = ()
    accepts_tables: ClassVar[bool] = False
    passes_tombstones: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def read(cls, node: Node, reader: Reader) -> StepAction | None:
        """Read the step, also one of `kinds`, from the value of its key; None after a reported error."""

    def references(self) -> References:
        """The tables, stores and flows named in the step."""
        return References()

    def rejection(self, word: str, shape: Shape) -> Rejection | None:
        """Why the step does not accept this input, a stream or table with known columns; None if it does."""
        return None if self.accepts_tables else streams_only(word, shape)

    @abstractmethod
    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Check the step against the shape of its input, and add its operations to `context`.

        Returns the shape after it. Errors are reported; after one, the shape may be incomplete.
        """


@dataclass(frozen=True)
class ColumnsStep(StepAction):
    """A step for streams and tables, with the expressions of named columns."""

    columns: Pairs

    accepts_tables = True

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        """See `StepAction`."""
        columns = reader.columns(entries(node))
        return cls(columns) if columns else None


@dataclass(frozen=True)
class Step(StepLocation):
    """A step. `action`: None if an error was reported. `was`: former names, the latest first."""

    action: StepAction | None
    was: tuple[ScalarNode, ...] = ()


def streams_only(word: str, shape: Shape) -> Rejection | None:
    """A rejection if the input is a table."""
    if not shape.is_table:
        return None
    return Rejection("HW501", f"'{word}' is for streams; this is a table.", "Put `to_stream` before it.")
