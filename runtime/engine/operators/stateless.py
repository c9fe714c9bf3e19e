"""Stateless operators: they process single rows and store nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...ir.functions import Udf
from ...ir.topology import StepText
from .operator import (
    EdgeColumns,
    Lineage,
    OnFlow,
    Operator,
    Place,
    SameColumns,
    column_of,
    columns_text,
    fork_texts,
    union,
)

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch

# Operators that rename, drop or compute columns of the value or the key.


@dataclass(frozen=True)
class Select(OnFlow):
    """Selects value columns: those in `keep`, and `columns` (new name -> physical name of an existing column)."""

    flow: str
    columns: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    at: Place = ""

    @property
    def text(self) -> str:
        """Empty if it only drops columns, because that follows from later steps."""
        return f"select {columns_text(self.columns)}" if self.columns else ""

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        edge = edges[self.flow]
        return {self.flow: replace(edge, value={new: edge.at(name) for new, name in self._all.items()})}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        rows = edges[self.flow]
        edges[self.flow] = rows.with_columns(None, {new: rows.columns[name] for new, name in self._all.items()})

    @property
    def _all(self) -> dict[str, str]:
        return {name: name for name in self.keep} | dict(self.columns)


@dataclass(frozen=True)
class KeyBy(OnFlow):
    """Changes the key. `key`: new name -> physical name of an existing column."""

    flow: str
    key: Mapping[str, str]
    at: Place = ""

    @property
    def text(self) -> str:
        return f"key_by {columns_text(self.key)}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        edge = edges[self.flow]
        return {self.flow: replace(edge, key={new: edge.at(name) for new, name in self.key.items()})}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        rows = edges[self.flow]
        edges[self.flow] = rows.with_columns({new: rows.columns[name] for new, name in self.key.items()})


@dataclass(frozen=True)
class Call(OnFlow):
    """Calls a Python function of an expression for each row. The result is the value column `column`.

    It is also called for replaced rows: equal rows give equal results. `arguments`: the columns that are passed.
    `null_values`: whether it is also called for null values, with null in all value columns. Otherwise the result is
    null there. `by_itself`: whether no earlier operator is stateful. Then it fails for a row regardless of skipped
    records. `engine/steps.py` sets this when it builds the stages.
    """

    flow: str
    column: str
    udf: Udf
    arguments: tuple[str, ...]
    null_values: bool = False
    at: Place = ""
    by_itself: bool = False

    @property
    def text(self) -> str:
        """Includes the function, the order of arguments and the types, because the name does not determine them."""
        form = " with Arrow" if self.udf.arrow else ""
        return f"call {self.column}, {self.udf.signature}, by {self.udf.function.name}{form}"

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        edge = edges[self.flow]
        result = column_of(self.udf.returns, union(edge.at(name).inputs for name in self.arguments))
        return {self.flow: replace(edge, value={**edge.value, self.column: result})}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises EachFailedError, FunctionLoadError."""
        import numpy as np
        import pyarrow as pa

        from ...python_functions.calling import CallFailedError, column_call
        from ...records.types import Kind
        from ..execution.node import EachFailedError

        rows = edges[self.flow]
        mask = rows.kind >= (Kind.TOMBSTONE if self.null_values else Kind.VALUE)
        index = np.flatnonzero(mask)
        arguments = [rows.columns[name] for name in self.arguments]
        if len(index) < len(rows):
            arguments = [column.take(pa.array(index)) for column in arguments]
        try:
            results = column_call(self.udf)(arguments, len(index))
        except CallFailedError as error:
            orders = rows.order[index[list(error.failed)]].tolist()
            raise EachFailedError([*zip(orders, error.failed.values(), strict=True)], self.by_itself) from error
        if len(index) < len(rows):
            # Null at the other rows: for the mask [True, False, True], results ["x", "y"] become ["x", None, "y"].
            results = results.take(pa.array(np.cumsum(mask) - 1, mask=~mask))
        edges[self.flow] = rows.with_columns(None, {**rows.values, self.column: results})


# Operators that only move rows between edges or remove rows: copies, merges, and filters on changes of a table.


@dataclass(frozen=True)
class Fork(OnFlow):
    """Copies each row to the edge of each reader, in the order of `into`.

    All results of the first reader for a row precede those of the second.
    """

    flow: str
    into: tuple[str, ...]
    at: Place = ""

    text = ""

    @property
    def makes(self) -> tuple[str, ...]:
        return self.into

    def texts(self) -> Iterator[StepText]:
        return fork_texts(self.flow, self.into)

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        return dict.fromkeys(self.into, edges[self.flow])

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        import numpy as np

        rows = edges[self.flow]
        for number, name in enumerate(self.into):
            edges[name] = rows.deeper(np.full(len(rows), number))


@dataclass(frozen=True)
class Merge(Operator):
    """Merges the rows of several edges with equal columns, in the order of processing."""

    flows: tuple[str, ...]
    into: str
    at: Place = ""

    @property
    def reads(self) -> tuple[str, ...]:
        return self.flows

    @property
    def makes(self) -> tuple[str, ...]:
        return (self.into,)

    @property
    def text(self) -> str:
        return f"merge {', '.join(self.flows)}"

    @property
    def text_edges(self) -> tuple[str, ...]:
        return (self.into,)

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        return {self.into: EdgeColumns.merged([edges[name] for name in self.flows])}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.rows import interleave

        edges[self.into] = interleave([edges[flow] for flow in self.flows])


@dataclass(frozen=True)
class Settle(SameColumns):
    """Removes deletions of rows that did not exist, after a filter on a table."""

    flow: str
    at: Place = ""

    text = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ...records.types import Kind
        from ..execution.rows import after_old

        rows = edges[self.flow]
        edges[self.flow] = rows.filter((rows.kind != Kind.TOMBSTONE) | after_old(rows.kind))


@dataclass(frozen=True)
class ToStream(SameColumns):
    """Turns the changes of a table into records. Drops replaced rows."""

    flow: str
    at: Place = ""

    text = "to_stream"

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.rows import is_old

        rows = edges[self.flow]
        edges[self.flow] = rows.filter(~is_old(rows.kind))
