"""Entries of a project's files, typed, with their places: topics, tables, stores, and plugins as they are named.

References are still names (`Scalar`s, which keep their position); durations are milliseconds. What a file said wrong
has been reported when these are built, and is simply missing here.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass

from ..reading.nodes import Mapping, Scalar

Columns = AbstractMapping[str, "Column"]


@dataclass(frozen=True)
class Column:
    """A declared column. `type`: canonical Spark SQL, None where it is not a type (reported)."""

    name: Scalar
    type: str | None


@dataclass(frozen=True)
class PluginUse:
    """A plugin by name, with its options as they are written. `name` is None where the default is meant."""

    name: Scalar
    options: Mapping | None = None


@dataclass(frozen=True)
class TopicModel:
    """A topic that a file of `topics/` declares."""

    name: Scalar
    partitions: int
    key: Columns
    value: Columns
    windowed: bool = False
    timestamp: Scalar | None = None
    cleanup: str = "delete"
    retention_ms: int | None = None
    seed: Mapping | None = None
    on_error: str = "fail"


@dataclass(frozen=True)
class TableModel:
    """An entry of `tables:`. `emit`: `per_epoch` or `each_update`."""

    name: Scalar
    topic: Scalar
    store: Scalar | None = None
    is_global: bool = False
    emit: str = "per_epoch"


@dataclass(frozen=True)
class StoreModel:
    """An entry of `stores:`. `type` is None where it is left to the step; `retention` keeps the place."""

    name: Scalar
    type: str | None = None
    backend: PluginUse | None = None
    retention_ms: int | None = None
    retention: Scalar | None = None
    changelog: bool = True
    cleanup: str | None = None
