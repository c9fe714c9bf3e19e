"""The pipe with which generated code builds a subtopology, step by step.

`job.py` has one function for each subtopology. It takes a `Pipe`, calls one method for each step, and returns the
result of the last call:

    @subtopology(0, "late", file=FILE)
    def late(rows: Pipe) -> Pipe:
        rows = rows.process(Source(FLIGHTS, "late", at=23))
        rows = rows.where("late", "dep_delay > 15", at=27)
        rows = rows.select("late", {"hours double": "dep_delay / 60"}, keep=("flight",), at=28)
        return rows.process(Sink("late", LATE, at=30))

A pipe only collects the steps; `steps.py` runs them. Each step names its edge: a flow or a table. A new column is
written with its type, as in a table's definition: `"hours double"`. The columns of edges, and the edges that are passed
on, follow from the steps, so generated code does not contain them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ..ir.topology import OnError, StoreFiller, Subtopology
from ..records.types import split_columns
from .operators.aggregations import Aggregation
from .operators.foreign_keys import ForeignKeyJoin
from .operators.kafka import Produce
from .operators.operator import Operator, Place, flow_of
from .operators.process import Process
from .operators.tables import Suppress
from .operators.topics import Sink, Source, topics_written
from .sql_step import SqlKind, SqlStep
from .steps import PythonStep, Step, Steps, held_back, nodes_of, read_later, regrouping, step_texts, waited, with_turns


@dataclass(frozen=True)
class Pipe:
    """The steps of a subtopology so far. `at`: the line of the step in the YAML.

    `keep`: the value columns that pass unchanged. Key columns always pass. Without `keep`, all columns pass that are
    not replaced.
    """

    steps: tuple[Step, ...] = ()

    def process(self, *nodes: Any, keep: Mapping[str, Sequence[str]] | None = None) -> Pipe:
        """Run operators in one Python stage. The first stage reads the sources, the last one yields the tasks' commits.

        The steps of another pipe, `Pipe().where(...)`, stand between processors that share a store. Tasks compute them.
        `keep`: edge -> the value columns that are passed on, for edges with more columns than later steps need. `_now`,
        the epoch's planned time, is passed on only if it is named.
        """
        parts: Iterator[tuple[Any, ...]] = (node.steps if isinstance(node, Pipe) else (node,) for node in nodes)
        kept = {name: tuple(columns) for name, columns in (keep or {}).items()}
        return self._with(PythonStep(tuple(chain.from_iterable(parts)), kept))

    def where(self, flow: str, condition: str, *, table: bool = False, at: Place = "") -> Pipe:
        """Keep the records for which `condition` is true. Null counts as false.

        On a table, a replaced row stays only if it passes. A new row that does not pass becomes a deletion. `Settle`
        then removes deletions of rows that did not exist.
        """
        return self._with(SqlStep("where", (flow,), condition=condition, table=table, at=at))

    def select(
        self,
        flow: str,
        columns: Mapping[str, str] | None = None,
        *,
        keep: Sequence[str] = (),
        null_values: bool = False,
        at: Place = "",
    ) -> Pipe:
        """Compute value columns (name and type -> SQL). Of the other value columns, only those in `keep` stay.

        A null value stays null, and nothing is evaluated for it. With `null_values`, SQL is evaluated and sees null in
        all value columns.
        """
        return self._computing("select", flow, columns or {}, keep, null_values, at)

    def with_columns(self, flow: str, columns: Mapping[str, str], *, null_values: bool = False, at: Place = "") -> Pipe:
        """Like `select`, but all other value columns stay."""
        return self._computing("with_columns", flow, columns, None, null_values, at)

    def key_by(self, flow: str, key: Mapping[str, str], *, keep: Sequence[str] | None = None, at: Place = "") -> Pipe:
        """Compute the new key columns (name and type -> SQL).

        They are also computed for null values, because Kafka's mapper is called for these. Equal keys look the same to
        later steps: a float's -0.0 becomes 0.0.
        """
        return self._computing("key_by", flow, key, keep, False, at)

    def explode(
        self, flow: str, columns: Mapping[str, str], *, keep: Sequence[str] | None = None, at: Place = ""
    ) -> Pipe:
        """One record for each element of an array, in order. None for a null or empty array.

        `columns`: the new column (name and type of an element -> SQL of the array).
        """
        return self._computing("explode", flow, columns, keep, False, at)

    def branch(
        self, flow: str, branches: Mapping[str, str | None], *, keep: Sequence[str] | None = None, at: Place = ""
    ) -> Pipe:
        """Route each record to the first of `branches` (edge -> condition) with a true condition. None takes the rest.

        Records without a match are dropped, and so are those of branches that no step reads.
        """
        return self._with(SqlStep("branch", (flow,), branches=branches, keep=_names(keep), at=at))

    def fork(self, flow: str, into: Sequence[str], *, keep: Sequence[str] | None = None, at: Place = "") -> Pipe:
        """Give each reader its own copy of every record, in the order of `into`."""
        return self._with(SqlStep("fork", (flow,), into=tuple(into), keep=_names(keep), at=at))

    def merge(self, flows: Sequence[str], into: str, *, at: Place = "") -> Pipe:
        """Merge several flows with equal columns into one. Records keep the order of processing."""
        return self._with(SqlStep("merge", tuple(flows), into=(into,), at=at))

    def _computing(
        self,
        kind: SqlKind,
        flow: str,
        columns: Mapping[str, str],
        keep: Sequence[str] | None,
        null_values: bool,
        at: Place,
    ) -> Pipe:
        declared = [(*column, sql) for written, sql in columns.items() for column in split_columns(written)]
        return self._with(
            SqlStep(
                kind,
                (flow,),
                columns={name: sql for name, _, sql in declared},
                types={name: data_type for name, data_type, _ in declared},
                keep=_names(keep),
                null_values=null_values,
                at=at,
            )
        )

    def _with(self, step: Step) -> Pipe:
        return Pipe((*self.steps, step))


def _names(keep: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if keep is None else tuple(keep)


def subtopology(
    number: int, name: str, *, file: str = "", on_error: Mapping[OnError, Sequence[Place]] | None = None
) -> Callable[[Callable[[Pipe], Pipe]], Subtopology]:
    """A decorator that turns a function into a subtopology. Its topics and stores follow from its operators.

    `number`: the number that tasks are shown with. `name`: the name under which positions are committed. `file`: the
    YAML file of the line numbers. `on_error`: policy for failed records -> the lines of steps in flows with this
    policy. Raises ValueError if a step reads an edge that no step makes.
    """

    def of(function: Callable[[Pipe], Pipe]) -> Subtopology:
        steps = tuple(_placed(step, file) for step in with_turns(function(Pipe()).steps))
        read_later(steps)

        nodes = [node for node in nodes_of(steps) if isinstance(node, Operator)]
        sources = {topic.name: topic for node in nodes for topic in node.topics_read}
        letters = {n.topic.name: n.dead_letter for n in nodes if isinstance(n, Source) and n.dead_letter is not None}
        kept = [(store, node.at) for node in nodes for store in node.stores]
        stores = {store.name: store for store, _ in kept}
        tables = {table.name: table for node in nodes for table in node.global_tables}
        return Subtopology(
            number,
            name,
            partitions=max((topic.partitions for topic in sources.values()), default=0),
            build=Steps(steps),
            sources=tuple(sources.values()),
            sinks=topics_written(nodes),
            stores=tuple(stores.values()),
            global_tables=tuple(tables.values()),
            places={store.name: str(at) for store, at in reversed(kept) if at},
            repartition_topics=tuple(dict.fromkeys(repartition_topics(nodes))),
            steps=step_texts(steps),
            on_error={_place(at, file): policy for policy, places in (on_error or {}).items() for at in places},
            dead_letters=letters,
            starts={n.topic.name: n.start for n in nodes if isinstance(n, Source) and n.start is not None},
            fillers=tuple(fillers(nodes)),
            settings=tuple(_settings(nodes)),
            processors=tuple(node.name for node in nodes if isinstance(node, Process)),
            answers=answers(nodes),
            never_skipped=_never_skipped(nodes),
            regrouping=regrouping(steps),
            of_tables=tuple(node.store.name for node in nodes if isinstance(node, Aggregation) and node.of == "table"),
            held_back=held_back(steps),
            waited=waited(steps),
            produced={node.topic.name: node.produced for node in nodes if isinstance(node, Produce)},
        )

    return of


def _settings(nodes: Sequence[Operator]) -> Iterator[tuple[str, str, str]]:
    """(Flow, setting, value). Settings of the second `suppress` of a flow begin with `suppress_2`."""
    numbers: Counter[str] = Counter()
    for node in sorted(nodes, key=lambda node: isinstance(node, Suppress)):
        number = ""
        if isinstance(node, Suppress):
            numbers[node.flow] += 1
            number = f"_{numbers[node.flow]}" if numbers[node.flow] > 1 else ""
        for name, value in node.settings:
            word, dot, rest = name.partition(".") if number else (name, "", "")
            yield node.reads[0], f"{word}{number}{dot}{rest}", value


def repartition_topics(nodes: Iterable[Operator]) -> Iterator[str]:
    """The names of the repartition topics: only subtopologies of the same application read them."""
    return (node.topic.name for node in nodes if isinstance(node, Sink) and node.mode == "repartition")


def answers(nodes: Sequence[Operator]) -> tuple[str, ...]:
    """The names of the sources with responses of foreign-key joins."""
    return _sources_of({node.flow for node in nodes if isinstance(node, ForeignKeyJoin)}, nodes)


def _never_skipped(nodes: Sequence[Operator]) -> tuple[str, ...]:
    """The names of the sources with records that are never skipped.

    These are changes of a regrouped table, and subscriptions and responses of foreign-key joins.
    """
    return _sources_of({node.reads[0] for node in nodes if node.needs_all}, nodes)


def _sources_of(edges: Set[str], nodes: Sequence[Operator]) -> tuple[str, ...]:
    return tuple(node.topic.name for node in nodes if isinstance(node, Source) and not edges.isdisjoint(node.edges))


def fillers(nodes: Iterable[Operator]) -> Iterator[StoreFiller]:
    """The filler of each store: the operator that writes its rows."""
    filled: dict[str, str] = {}
    for node in nodes:
        for store in node.fills:
            if store.name not in filled:
                flow = filled[store.name] = flow_of(node.reads[0])
                yield StoreFiller(store.name, flow, [*filled.values()].count(flow))


def _placed(step: Step, file: str) -> Step:
    """The step, with its locations as `file:line`."""

    def placed(node: Any) -> Any:
        return replace(node, at=_place(node.at, file))

    if isinstance(step, SqlStep):
        return replace(step, at=_place(step.at, file))
    return replace(step, nodes=tuple(map(placed, step.nodes)))


def _place(at: Place, file: str) -> str:
    """The location as `file:line`. A text already has its file, and stays as it is."""
    return at if isinstance(at, str) else f"{file}:{at}"
