"""Entries of a project's files as typed data with places: topics, tables, stores, and uses of plugins.

References are names (`Scalar`s, which keep their positions). Durations are in milliseconds. Mistakes in a file have
been reported before, and the values concerned are missing here.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass

from ...runtime.operators.declarations import Emit
from ...runtime.topology import OnError
from ..reading.nodes import Mapping, Scalar

Columns = AbstractMapping[str, "Column"]


@dataclass(frozen=True)
class Column:
    """A declared column. `type`: canonical Spark SQL; None if it is not a type, which has been reported."""

    name: Scalar
    type: str | None


@dataclass(frozen=True)
class PluginUse:
    """A plugin by name, with its options as they are written."""

    name: Scalar
    options: Mapping | None = None


@dataclass(frozen=True)
class TopicModel:
    """A topic that a file of `topics/` declares. `readers`: the applications that read it.

    `lost`: whether some of its columns could not be read, which has been reported.
    """

    name: Scalar
    partitions: int
    key: Columns
    value: Columns
    windowed: bool = False
    timestamp: Scalar | None = None
    cleanup: str = "delete"
    retention_ms: int | None = None
    seed: Mapping | None = None
    on_error: OnError = "fail"
    readers: tuple[str, ...] = ()
    lost: bool = False


@dataclass(frozen=True)
class TableModel:
    """An entry of `tables:`. `emit`: `per_epoch` or `each_update`. `was`: its former names, the latest first."""

    name: Scalar
    topic: Scalar
    store: Scalar | None = None
    is_global: bool = False
    emit: Emit = "per_epoch"
    description: str = ""
    was: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class StoreModel:
    """An entry of `stores:`.

    `type` is None if the step decides it. `retention` is the scalar, which keeps its place. `was`: its former names,
    the latest first. `key`, `value`: the columns of one that processors use; None where the step decides them.
    """

    name: Scalar
    type: str | None = None
    backend: PluginUse | None = None
    retention_ms: int | None = None
    retention: Scalar | None = None
    changelog: bool = True
    cleanup: str | None = None
    was: tuple[Scalar, ...] = ()
    key: Columns | None = None
    value: Columns | None = None
