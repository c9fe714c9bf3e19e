"""What generated code builds a subtopology with: a pipe that goes through its steps, one after the other.

`job.py` has one function for each subtopology. It takes a `Pipe`, calls a method of it for each step, and returns what
the last one gave:

    @subtopology(0, "late", file=FILE)
    def late(rows: Pipe) -> Pipe:
        rows = rows.process(Source(FLIGHTS, "late", at=23))
        rows = rows.where("dep_delay > 15", at=27)
        return rows.process(Sink("late", LATE, at=30))

A pipe does nothing by itself. Its `engine` does: Spark's adds each step to a query plan (`spark/engine.py`), one in
this process may run it at once, and the one of this module only notes the operators. An engine has two methods:
`process` for a Python stage and `sql` for a step in SQL. What one call gives, the next gets (`Pipe.rows`).

The pipe knows what every engine needs: the file that lines are meant of, and which edges cross it with which columns.
So a stage says only what it changes:

- An edge that no operator of a stage names goes on to the next as it came, or as its source reads it.
- An edge whose columns SQL has not computed is read by the next stage as the last one yielded it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..operators.declarations import (
    Declaration,
    Flow,
    Fork,
    GlobalJoin,
    Merge,
    Place,
    Sink,
    Source,
    StreamTableJoin,
)
from ..operators.node import Node
from ..operators.source import source_columns
from ..records.types import columns_ddl, parse_columns
from ..topology import Store, Subtopology


class Engine(Protocol):
    """What does the steps of a pipe. `rows` is what the step before gave; the first gets what the pipe was made of."""

    def process(self, rows: Any, nodes: tuple[Node, ...], reads: Mapping[str, Flow], yields: Mapping[str, Flow]) -> Any:
        """Run operators in one Python stage (`stage.Stage`). No `reads`: it is the first. No `yields`: the last."""

    def sql(self, rows: Any, step: str, arguments: Mapping[str, Any]) -> Any:
        """Do a step in SQL. `step`: the method of `Pipe`; `arguments`: its own by name, with `at` as `file:line`."""


@dataclass(frozen=True)
class Pipe:
    """The rows of a subtopology between two of its steps.

    `at`, of every step and operator: the line of the YAML, in `file`. `flow` names the edge that a SQL step works on,
    and is omitted while only one is there. `keep` names the columns that pass unchanged (None: all that are not
    replaced), `key` the key columns whose name changes (new -> old). `edges`: the columns of each edge; None where SQL
    has computed some of them.
    """

    rows: Any
    engine: Engine
    file: str = ""
    edges: Mapping[str, Flow | None] = field(default_factory=dict)

    def process(
        self, *nodes: Any, reads: Mapping[str, Flow] | None = None, yields: Mapping[str, Flow] | None = None
    ) -> Pipe:
        """Run operators in one Python stage. The first reads the sources, the last gives the tasks' commits.

        `reads`: the columns of edges that SQL has computed; `yields`: those of edges that go on, where an operator has
        changed them. Raises ValueError where an edge's columns are not said.
        """
        come: dict[str, Flow] = {}
        for name, flow in ({**self.edges, **(reads or {})}).items():
            if flow is None:
                raise ValueError(f"SQL has changed the columns of {name}: `reads` must say them")
            come[name] = flow
        go = {**untouched(nodes, come), **(yields or {})}
        placed = tuple(replace(node, at=self._place(node.at)) for node in nodes)
        return replace(self, rows=self.engine.process(self.rows, placed, come, go), edges=go)

    def where(self, condition: str, *, table: bool = False, flow: str | None = None, at: int = 0) -> Pipe:
        """Keep the records for which `condition` holds; a null counts as false.

        Of a table a replaced row stays only if it passed, and a new row that does not pass becomes a deletion;
        `Settle` removes those that delete nothing.
        """
        return self._sql("where", self.edges, at, condition=condition, table=table, flow=flow)

    def select(
        self,
        columns: Mapping[str, str],
        *,
        keep: Sequence[str] | None = None,
        key: Mapping[str, str] | None = None,
        null_values: bool = False,
        flow: str | None = None,
        at: int = 0,
    ) -> Pipe:
        """Compute value columns (name -> SQL); of the others only those of `keep` stay.

        Nothing is evaluated for a null value, which stays null; unless `null_values`: then its columns are null for
        SQL.
        """
        given = {"columns": columns, "keep": keep, "key": key, "null_values": null_values, "flow": flow}
        return self._sql("select", self._computed(flow), at, **given)

    def with_columns(
        self,
        columns: Mapping[str, str],
        *,
        keep: Sequence[str] | None = None,
        key: Mapping[str, str] | None = None,
        null_values: bool = False,
        flow: str | None = None,
        at: int = 0,
    ) -> Pipe:
        """The same as `select`, where no column is dropped that a later step could see."""
        given = {"columns": columns, "keep": keep, "key": key, "null_values": null_values, "flow": flow}
        return self._sql("with_columns", self._computed(flow), at, **given)

    def key_by(
        self, key: Mapping[str, str], *, keep: Sequence[str] | None = None, flow: str | None = None, at: int = 0
    ) -> Pipe:
        """Compute the new key columns (name -> SQL), for null values too, as Kafka's mapper is called for them.

        Equal keys look the same to the steps behind: a float's -0.0 is 0.0.
        """
        return self._sql("key_by", self._computed(flow), at, key=key, keep=keep, flow=flow)

    def explode(
        self,
        columns: Mapping[str, str],
        *,
        keep: Sequence[str] | None = None,
        key: Mapping[str, str] | None = None,
        flow: str | None = None,
        at: int = 0,
    ) -> Pipe:
        """One record for each element of an array (`columns`: new column -> SQL), in order; none for null or empty."""
        return self._sql("explode", self._computed(flow), at, columns=columns, keep=keep, key=key, flow=flow)

    def branch(
        self,
        branches: Sequence[tuple[str, str | None]],
        *,
        into: Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
        flow: str | None = None,
        at: int = 0,
    ) -> Pipe:
        """Hand each record to the first of `branches` (edge, condition) that holds; None as condition takes the rest.

        Records that match none are gone, and so are those of branches outside `into`, which nobody reads.
        """
        read = [name for name, _ in branches] if into is None else into
        edges = self._copied([self._edge(flow)], read, keep)
        return self._sql("branch", edges, at, branches=branches, into=into, keep=keep, flow=flow)

    def fork(
        self, into: Sequence[str], *, keep: Sequence[str] | None = None, flow: str | None = None, at: int = 0
    ) -> Pipe:
        """Give each reader its own copy of every record, in the order of `into`."""
        return self._sql("fork", self._copied([self._edge(flow)], into, keep), at, into=into, keep=keep, flow=flow)

    def merge(self, flows: Sequence[str], into: str, *, keep: Sequence[str] | None = None, at: int = 0) -> Pipe:
        """Make one flow of several that have equal columns; records keep the order in which they come."""
        return self._sql("merge", self._copied(flows, [into], keep), at, flows=flows, into=into, keep=keep)

    def _sql(self, step: str, edges: Mapping[str, Flow | None], at: int, **arguments: Any) -> Pipe:
        rows = self.engine.sql(self.rows, step, {**arguments, "at": self._place(at)})
        return replace(self, rows=rows, edges=edges)

    def _edge(self, flow: str | None) -> str:
        return next(iter(self.edges)) if flow is None else flow

    def _computed(self, flow: str | None) -> Mapping[str, Flow | None]:
        return {**self.edges, self._edge(flow): None}

    def _copied(
        self, flows: Sequence[str], into: Sequence[str], keep: Sequence[str] | None
    ) -> Mapping[str, Flow | None]:
        found = self.edges[flows[0]]
        others = {name: each for name, each in self.edges.items() if name not in flows}
        return others | dict.fromkeys(into, found and _trimmed(found, keep))

    def _place(self, at: Place) -> str:
        """`file:line`; a place that is complete already stays."""
        return at if isinstance(at, str) else f"{self.file}:{at}" if at else ""


def subtopology(number: int, name: str, *, file: str = "") -> Callable[[Callable[[Pipe], Pipe]], Subtopology]:
    """Makes a subtopology of the function below: what it reads, writes and keeps is read off its operators.

    `number`: how its tasks are shown. `name`: how positions are kept. `file`: the YAML that its lines are meant of.
    """

    def of(function: Callable[[Pipe], Pipe]) -> Subtopology:
        def build(rows: Pipe) -> Pipe:
            return function(replace(rows, file=file))

        nodes: tuple[Declaration, ...] = build(Pipe((), _Noting())).rows
        sources = {node.topic.name: node.topic for node in nodes if isinstance(node, Source)}
        sinks = {node.topic.name: node.topic for node in nodes if isinstance(node, Sink)}
        kept = [(store, node.at) for node in nodes if isinstance(store := getattr(node, "store", None), Store)]
        stores = {store.name: store for store, _ in kept}
        tables = {node.table.name: node.table for node in nodes if isinstance(node, GlobalJoin)}
        return Subtopology(
            number,
            name,
            partitions=max((topic.partitions for topic in sources.values()), default=0),
            build=build,
            sources=tuple(sources.values()),
            sinks=tuple(sinks.values()),
            stores=tuple(stores.values()),
            global_tables=tuple(tables.values()),
            places={store.name: str(at) for store, at in reversed(kept) if at},
        )

    return of


class _Noting:
    """An engine that runs nothing: its rows are the operators so far."""

    def process(
        self,
        rows: tuple[Node, ...],
        nodes: tuple[Node, ...],
        reads: Mapping[str, Flow],  # noqa: ARG002
        yields: Mapping[str, Flow],  # noqa: ARG002
    ) -> tuple[Node, ...]:
        return (*rows, *nodes)

    def sql(self, rows: tuple[Node, ...], step: str, arguments: Mapping[str, Any]) -> tuple[Node, ...]:  # noqa: ARG002
        return rows


def untouched(nodes: Sequence[Declaration], come: Mapping[str, Flow]) -> dict[str, Flow]:
    """The edges that come in, or that a source of the stage reads, and that none of its other operators names."""
    read = {name: source_columns(node) for node in nodes if isinstance(node, Source) for name in node.edges}
    named = {name for node in nodes for name in _named(node)}
    return {name: flow for name, flow in {**come, **read}.items() if name not in named}


def _named(node: Declaration) -> tuple[str, ...]:
    """The edges that an operator takes or makes."""
    match node:
        case Source():
            return ()
        case StreamTableJoin():
            return node.flow, node.table
        case Merge():
            return *node.flows, node.into
        case Fork():
            return node.flow, *node.into
    return (node.flow,)


def _trimmed(flow: Flow, keep: Sequence[str] | None) -> Flow:
    """The flow with those of its value columns that are kept. Key columns always are."""
    if keep is None:
        return flow
    value = {name: data_type for name, data_type in parse_columns(flow.value).items() if name in keep}
    return replace(flow, value=columns_ddl(value))
