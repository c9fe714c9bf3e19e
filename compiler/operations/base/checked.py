"""Checked topologies: the result of the checks, from which the graph is built.

A flow is a sequence of operations, each with the shape of its input and output. Repartition topics are in place. Where
each operation runs and which columns travel is decided later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....runtime.topology import GlobalTable, Store, Topic
from .operation import Operation
from .shape import Shape


@dataclass(frozen=True)
class Repartition:
    """A repartition topic, which brings each record to the partition of its key.


    The wiring makes a sink and a source of it. `of`: the flow at whose end it stands, if the readers of that flow share
    it; None: it belongs to the reading flow alone. `edge`: what is read from it, if that is not called as the flow.
    """

    topic: str
    partitions: int
    of: str | None = None
    edge: str | None = None


@dataclass(frozen=True)
class PlacedOperation:
    """An operation with its place (`file:line`), the step's name, and the shapes before and after it."""

    operation: Operation | Repartition
    before: Shape
    after: Shape
    at: str = ""
    name: str = ""


@dataclass(frozen=True)
class CheckedFlow:
    """A flow without errors. `sources`: topics, tables and flows by name. `at`, `to_at`: `file:line`.

    `start`: where it begins in its topics, as the YAML says it; None: at the first records.
    """

    name: str
    sources: tuple[str, ...]
    operations: tuple[PlacedOperation, ...]
    before: Shape
    after: Shape
    to: Topic | None
    at: str
    to_at: str = ""
    start: str | None = None


@dataclass(frozen=True)
class CheckedTable:
    """An entry of `tables:` with its topic and shape. `global_table`: set if the table is global."""

    name: str
    topic: Topic
    shape: Shape
    store: Store
    at: str
    global_table: GlobalTable | None = None


@dataclass(frozen=True)
class CheckedTopology:
    """A topology whose flows and tables have been checked.

    `flows`: each after those that it reads. `declared`: their names in the order of the file. `stores`: the names that
    stores have which are declared, or which a step or a table has called after its flow or itself.
    """

    name: str
    file: str
    declared: tuple[str, ...]
    tables: Mapping[str, CheckedTable]
    flows: Mapping[str, CheckedFlow]
    topics: Mapping[str, Topic]
    stores: frozenset[str] = frozenset()
