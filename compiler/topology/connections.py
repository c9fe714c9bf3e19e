"""Operations that connect flows: reading and writing topics, forks and merges. The wiring adds them.

They also choose the columns of a repartition topic: those needed by its readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...runtime.engine.operators.operator import Side
from ...runtime.engine.operators.stateless import Fork, Merge, Select
from ...runtime.engine.operators.topics import RoutedSink, Sink, SinkMode, Source
from ...runtime.engine.sql_step import SqlStep
from ...runtime.ir.topology import GlobalTable, Topic
from ..entries import columns_ddl
from ..language.expressions import Expression
from ..operations.base.operation import (
    EVERY_CHANGE,
    Description,
    EitherOperation,
    NullKeys,
    Processor,
    PythonOperation,
    TableUse,
)
from ..operations.base.site import NOW, Declared, LiveEdge, PythonLayout, Shape, Site, SqlLayout, argument_columns


@dataclass(frozen=True)
class Reading(PythonOperation):
    """Reads a topic, with one output per name in `into`.

    `rank`: 0 for a table, 1 for a stream. `dead_letter`: the topic of its failed records. `start`: where a new reader
    starts; None: at the first record.
    """

    topic: Topic
    into: tuple[str, ...]
    rank: int
    repartition: bool = False
    dead_letter: Topic | None = None
    start: str | None = None

    has_effect = False
    null_keys = "passed"

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return Description("", (Processor("KSTREAM-SOURCE", "source", topics=(self.topic.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        """A source with the columns needed by any of its readers."""
        shape = site.output.shape
        needed = frozenset[str]().union(*(output.needed for output in site.outputs))
        value = tuple(name for name in shape.value if name in needed)
        topic = self.topic
        if self.repartition:
            shape = replace(shape, value={name: shape.value[name] for name in value})
            topic = _repartition_topic(topic, shape, site.declared)
        site.declared.topics.setdefault(topic.name, topic)
        if self.dead_letter is not None:
            site.declared.topics.setdefault(self.dead_letter.name, self.dead_letter)
        edges = tuple(LiveEdge(name, output.shape, value) for name, output in zip(self.into, site.outputs, strict=True))
        columns = None if len(value) == len(shape.value) else value
        into = self.into[0] if len(self.into) == 1 else self.into
        return PythonLayout((Source(topic, into, columns, self.dead_letter, self.start, site.at),), edges)


@dataclass(frozen=True)
class GlobalReading(PythonOperation):
    """Loads a global table. It has no edges, but a number among the subtopologies, as in Kafka Streams."""

    table: GlobalTable

    has_effect = True
    null_keys = "dropped"

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """A source, and a processor with the store."""
        source = Processor("KSTREAM-SOURCE", "source", topics=(self.table.topic.name,))
        return Description("", (source, Processor("KTABLE-SOURCE", stores=(self.table.store.name,))))

    def in_python(self, site: Site) -> PythonLayout:
        """No operators: every client loads the table, outside of tasks."""
        return PythonLayout((), ())


@dataclass(frozen=True)
class Writing(PythonOperation):
    """Writes a topic. `keep_null_keys`: records with a null key are written to a repartition topic."""

    topic: Topic
    mode: SinkMode
    keep_null_keys: bool = False

    has_effect = True

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The one topic."""
        return (self.topic,)

    @property
    def null_keys(self) -> NullKeys:
        """The readers of a repartition topic decide. Other sinks drop records with a null key."""
        return "passed" if self.mode == "repartition" else "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """All columns; of a repartition topic those needed by its readers (`output`)."""
        return output if self.mode == "repartition" else offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """A table's changes end here."""
        return EVERY_CHANGE if self.mode == "append" else TableUse(self.mode)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """A sink, behind the filter or `toStream` of Kafka Streams."""
        sink = Processor("KSTREAM-SINK", "sink", topics=(self.topic.name,))
        if self.mode == "repartition":
            role = "KTABLE-FILTER" if of_table else "KSTREAM-FILTER"
            return Description("", (sink,) if self.keep_null_keys else (Processor(role), sink))
        return Description("", (Processor("KTABLE-TOSTREAM"), sink) if of_table else (sink,))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.input.shape
        if self.mode == "repartition":
            columns = {name: type_ for name, type_ in shape.value.items() if name in site.needed}
            topic = _repartition_topic(self.topic, replace(shape, value=columns), site.declared)
        else:
            topic = site.declared.topics.setdefault(self.topic.name, self.topic)
        of: Side = "table" if self.mode == "repartition" and shape.is_table else "stream"
        return PythonLayout((Sink(edge.name, topic, self.mode, self.keep_null_keys, of, site.at),), ())


@dataclass(frozen=True)
class Routing(PythonOperation):
    """Writes each record of a stream to one of several topics.

    `by`: the expression of the topic's name, which a column has if it is none itself. `columns`: the value columns of
    the topics.
    """

    topics: tuple[Topic, ...]
    by: Expression
    columns: frozenset[str]

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns of the topics, and the one with the topic's name."""
        return self.columns | argument_columns([self.by])

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """One sink, as for a `TopicNameExtractor` of Kafka Streams."""
        names = tuple(topic.name for topic in self.topics)
        return Description(f"route {self.by.sql.text}", (Processor("KSTREAM-SINK", "sink", topics=names),))

    def in_python(self, site: Site) -> PythonLayout:
        topics = tuple(site.declared.topics.setdefault(topic.name, topic) for topic in self.topics)
        by = site.input.physical(self.by.as_column)
        return PythonLayout((RoutedSink(site.input.name, by, topics, site.at),), ())


@dataclass(frozen=True)
class Forking(EitherOperation):
    """Copies rows for several readers. Joins that look up rows share one copy; a sink has its own."""

    into: tuple[str, ...]

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns needed by any reader."""
        return output

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes are passed on to every reader."""
        return TableUse(positive=positive)

    def in_python(self, site: Site) -> PythonLayout:
        """A fork, if several readers are left."""
        if len(self.into) == 1:
            return PythonLayout((), (site.input,))
        edges = tuple(replace(site.input, name=name) for name in self.into)
        return PythonLayout((Fork(site.input.name, self.into, site.at),), edges)

    def in_sql(self, site: Site) -> SqlLayout:
        """A fork, if several readers are left."""
        edge = site.input
        if len(self.into) == 1:
            return SqlLayout((), (replace(edge, shape=site.output.shape),))
        edges, kept = site.copies(self.into)
        step = SqlStep("fork", site.flows, into=self.into, keep=kept, at=site.at)
        return SqlLayout((step,), edges)


@dataclass(frozen=True)
class Merging(EitherOperation):
    """Merges edges to one. Edges with other columns get a projection first."""

    into: str

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later, from every input."""
        return output

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return Description("merge", (Processor("KSTREAM-MERGE"),))

    def in_python(self, site: Site) -> PythonLayout:
        shape = site.output.shape
        value = tuple(name for name in shape.value if name in site.output.needed)
        projections = (Select(edge.name, keep=value, at=site.at) for edge in site.inputs if {*edge.value} != {*value})
        merge = Merge(tuple(edge.name for edge in site.inputs), self.into, site.at)
        return PythonLayout((*projections, merge), (LiveEdge(self.into, shape, value),))

    def in_sql(self, site: Site) -> SqlLayout:
        shape = site.output.shape
        value = tuple(column for column in (*shape.value, NOW) if column in site.output.needed)
        steps = []
        for edge in site.inputs:
            if {*edge.value} != {*value}:
                steps.append(SqlStep("select", (edge.name,), keep=value, at=site.at))
        steps.append(SqlStep("merge", site.flows, into=(self.into,), at=site.at))
        return SqlLayout(tuple(steps), (LiveEdge(self.into, shape, value),))


def _repartition_topic(topic: Topic, shape: Shape, declared: Declared) -> Topic:
    """The topic with only the columns needed by its readers."""
    if topic.name not in declared.topics:
        declared.topics[topic.name] = replace(topic, value=columns_ddl(shape.value))
    return declared.topics[topic.name]
