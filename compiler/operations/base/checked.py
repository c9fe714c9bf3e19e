"""Topologies whose every part has been checked: what comes between the checks and the graph.

A flow is a sequence of operations, each with the shape of its input and output. Repartition topics are in place; who
runs what, and which columns travel, is decided later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....runtime.topology import GlobalTable, Store, Topic
from .operation import Operation
from .shape import Shape


@dataclass(frozen=True)
class Repartition:
    """Through a topic, so that each record is in the partition of its key. The wiring makes a sink and a source of it.

    `of`: the flow at whose end it stands, if its readers share it; else None: it stands where it is.
    """

    topic: str
    partitions: int
    of: str | None = None


@dataclass(frozen=True)
class PlacedOperation:
    """One operation with its place (`file:line`), the step's name, and what goes in and comes out."""

    operation: Operation | Repartition
    before: Shape
    after: Shape
    at: str = ""
    name: str = ""


@dataclass(frozen=True)
class CheckedFlow:
    """A flow that may run. `sources`: topics, tables and flows by name; `at`, `to_at`: `file:line`."""

    name: str
    sources: tuple[str, ...]
    operations: tuple[PlacedOperation, ...]
    before: Shape
    after: Shape
    to: Topic | None
    at: str
    to_at: str = ""


@dataclass(frozen=True)
class CheckedTable:
    """An entry of `tables:`; its shape and topic; `global_table` if it is one."""

    name: str
    topic: Topic
    shape: Shape
    store: Store
    at: str
    global_table: GlobalTable | None = None


@dataclass(frozen=True)
class CheckedTopology:
    """A topology whose every part has been checked.

    `flows` are in an order in which each comes after what it reads; `declared` is the order of the file.
    """

    name: str
    file: str
    declared: tuple[str, ...]
    tables: Mapping[str, CheckedTable]
    flows: Mapping[str, CheckedFlow]
    topics: Mapping[str, Topic]
