"""The SQL steps of generated code done by Arrow, for projects whose expressions are simple: no Spark, no Java.

It follows `runtime/cluster/spark/sql_steps.py`, which says what each step does.
`tests/projects/test_flights_in_process.py` compares its results with pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import expressions as sql

from headwater.runtime.cluster.local import Batches, LocalCluster, LocalEngine, LocalJob, Step, built
from headwater.runtime.driver.cluster import EpochJob
from headwater.runtime.engine.execution.rows import physical_columns
from headwater.runtime.engine.operators.operator import Flow, Node
from headwater.runtime.ir.topology import Subtopology
from headwater.runtime.placing.place import Client
from headwater.runtime.records.types import Kind

META = ("_kind", "_ts", "_order", "_meta")
Columns = dict[str, pa.Array]


class ArrowCluster(LocalCluster):
    """A local cluster whose jobs do SQL steps with Arrow."""

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        return ArrowJob(part, client)


class ArrowJob(LocalJob):
    """The real job, with an engine that does SQL steps."""

    def __init__(self, part: Subtopology, client: Client) -> None:
        super().__init__(replace(part, build=lambda rows, _: rows), client, {})
        self._steps = built(part, ArrowEngine(self._worker, {}))


class ArrowEngine(LocalEngine):
    """The real engine, with SQL steps."""

    def process(
        self, rows: tuple[Step, ...], nodes: tuple[Node, ...], reads: Mapping[str, Flow], yields: Mapping[str, Flow]
    ) -> tuple[Step, ...]:
        given = (*rows, _whole(lambda pipe: _ordered(pipe, reads))) if reads else rows
        return super().process(given, nodes, reads, yields)

    def sql(self, rows: tuple[Step, ...], step: str, arguments: Mapping[str, Any]) -> tuple[Step, ...]:
        given = {name: value for name, value in arguments.items() if name != "at"}
        return (*rows, _whole(lambda pipe: _STEPS[step](pipe, **given)))


@dataclass
class Pipe:
    """Rows with their meta columns. `flows`: flow -> its columns and where a row is of this flow. A flat pipe has one,
    None.
    """

    meta: Columns
    flows: dict[str | None, tuple[np.ndarray, Columns]]

    @property
    def kind(self) -> np.ndarray:
        return self.meta["_kind"].to_numpy(zero_copy_only=False)

    def of(self, flow: str | None) -> tuple[np.ndarray, Columns]:
        return self.flows[flow] if flow in self.flows else next(iter(self.flows.values()))

    def with_flows(self, flow: str | None, flows: dict[str | None, tuple[np.ndarray, Columns]]) -> Pipe:
        """With others in the place of `flow`."""
        gone = flow if flow in self.flows else next(iter(self.flows))
        return Pipe(self.meta, {name: each for name, each in self.flows.items() if name != gone} | flows)

    def replaced(self, flow: str | None, columns: Columns) -> Pipe:
        name = flow if flow in self.flows else next(iter(self.flows))
        return Pipe(self.meta, {**self.flows, name: (self.flows[name][0], columns)})

    def with_kind(self, kind: np.ndarray) -> Pipe:
        return Pipe({**self.meta, "_kind": pa.array(kind, pa.int8())}, self.flows)

    def take(self, index: np.ndarray) -> Pipe:
        at = pa.array(index, pa.int64())
        return Pipe(
            {name: column.take(at) for name, column in self.meta.items()},
            {
                flow: (mask[index], {name: each.take(at) for name, each in columns.items()})
                for flow, (mask, columns) in self.flows.items()
            },
        )


def _whole(step: Callable[[Pipe], Pipe]) -> Step:
    """A step over all rows of a thread at once."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield _batch(step(_pipe(pa.Table.from_batches(list(batches)).combine_chunks())))

    return run


def _pipe(table: pa.Table) -> Pipe:
    columns = {name: _array(table[name]) for name in table.column_names}
    meta = {name: columns.pop(name) for name in META}
    if all(name.startswith("@") for name in columns):
        flows = {
            name[1:]: (
                column.is_valid().to_numpy(zero_copy_only=False),
                dict(zip([each.name for each in column.type], column.flatten(), strict=True)),
            )
            for name, column in columns.items()
        }
        return Pipe(meta, {**flows})
    return Pipe(meta, {None: (meta["_kind"].to_numpy(zero_copy_only=False) >= 0, columns)})


def _batch(pipe: Pipe) -> pa.RecordBatch:
    if len(pipe.flows) == 1:
        ((_, columns),) = pipe.flows.values()
        return pa.RecordBatch.from_pydict({**pipe.meta, **columns})
    structs = {
        f"@{name}": pa.StructArray.from_arrays(
            list(columns.values()), names=list(columns), mask=pa.array(~mask, pa.bool_())
        )
        for name, (mask, columns) in pipe.flows.items()
    }
    return pa.RecordBatch.from_pydict({**pipe.meta, **structs})


def _ordered(pipe: Pipe, reads: Mapping[str, Flow]) -> Pipe:
    """With exactly these flows and columns in this order, as the next stage expects them."""
    found: dict[str | None, tuple[np.ndarray, Columns]] = {}
    for name, flow in reads.items():
        mine, columns = pipe.of(name)
        found[name] = mine, {each: columns[each].cast(kind) for each, kind in physical_columns(flow).items()}
    return Pipe(pipe.meta, found)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _where(pipe: Pipe, condition: str, table: bool, flow: str | None) -> Pipe:
    mine, columns = pipe.of(flow)
    kind, passes = pipe.kind, _true(condition, columns)
    if not table:
        return pipe.take(np.flatnonzero(~mine | passes))
    deleted = np.where(mine & (kind == Kind.VALUE) & ~passes, np.int8(Kind.TOMBSTONE), kind)
    return pipe.with_kind(deleted).take(np.flatnonzero(~mine | (kind <= Kind.VALUE) | passes))


def _select(
    pipe: Pipe,
    columns: Mapping[str, str],
    keep: Sequence[str] | None,
    key: Mapping[str, str] | None,
    flow: str | None,
    null_values: bool = False,
) -> Pipe:
    mine, old = pipe.of(flow)
    least = Kind.TOMBSTONE if null_values else Kind.VALUE
    return pipe.replaced(flow, _projected(old, columns, keep, key, mine & (pipe.kind >= least)))


def _key_by(pipe: Pipe, key: Mapping[str, str], keep: Sequence[str] | None, flow: str | None) -> Pipe:
    mine, old = pipe.of(flow)
    return pipe.replaced(flow, _projected(old, key, keep, None, mine & (pipe.kind >= Kind.TOMBSTONE)))


def _projected(
    old: Columns,
    columns: Mapping[str, str],
    keep: Sequence[str] | None,
    key: Mapping[str, str] | None,
    where: np.ndarray,
) -> Columns:
    renamed = {new: old[was] for new, was in (key or {}).items()}
    gone = {*columns, *renamed, *(key or {}).values()}
    kept = {name: old[name] for name in (old if keep is None else keep) if name not in gone}
    return {**kept, **renamed, **{name: _guarded(_value(text, old), where) for name, text in columns.items()}}


def _guarded(column: pa.Array, where: np.ndarray) -> pa.Array:
    return column.take(pa.array(np.arange(len(where)), pa.int64(), mask=~where))


def _explode(
    pipe: Pipe,
    columns: Mapping[str, str],
    keep: Sequence[str] | None,
    key: Mapping[str, str] | None,
    flow: str | None,
) -> Pipe:
    ((column, text),) = columns.items()
    mine, old = pipe.of(flow)
    lists = _value(text, old).to_pylist()
    found = [
        (row, element) for row, elements in enumerate(lists) for element in ((elements or ()) if mine[row] else (None,))
    ]
    taken = pipe.take(np.array([row for row, _ in found], np.int64))
    mine, old = taken.of(flow)
    kept = _projected(old, {}, keep, {**(key or {})}, mine)
    made = {**kept, column: pa.array([element for _, element in found], _value(text, old).type.value_type)}
    kind = np.where(mine & (taken.kind == Kind.TOMBSTONE), np.int8(Kind.VALUE), taken.kind)
    return taken.replaced(flow, made).with_kind(kind)


def _branch(
    pipe: Pipe,
    branches: Sequence[tuple[str, str | None]],
    into: Sequence[str],
    keep: Sequence[str] | None,
    flow: str | None,
) -> Pipe:
    mine, columns = pipe.of(flow)
    left, taken = mine.copy(), dict[str, np.ndarray]()
    for name, condition in branches:
        taken[name] = left if condition is None else left & _true(condition, columns)
        left = left & ~taken[name]
    read = np.any([taken[name] for name in into], axis=0)
    behind = pipe.with_flows(flow, {name: (taken[name], _kept(columns, keep, taken[name])) for name in into})
    return behind.take(np.flatnonzero(~mine | read))


def _fork(pipe: Pipe, into: Sequence[str], keep: Sequence[str] | None, flow: str | None) -> Pipe:
    mine, _ = pipe.of(flow)
    copies = [(row, copy) for row in range(len(mine)) for copy in range(len(into) if mine[row] else 1)]
    taken = pipe.take(np.array([row for row, _ in copies], np.int64))
    mine, columns = taken.of(flow)
    number = np.array([copy for _, copy in copies], np.int64)
    masks = {name: mine & (number == n) for n, name in enumerate(into)}
    return taken.with_flows(flow, {name: (mask, _kept(columns, keep, mask)) for name, mask in masks.items()})


def _merge(pipe: Pipe, flows: Sequence[str], into: str, keep: Sequence[str] | None) -> Pipe:
    of = [(mask, _kept(columns, keep, mask)) for mask, columns in (pipe.flows[flow] for flow in flows)]
    names = list(of[0][1])
    merged = {name: pc.coalesce(*(columns[name] for _, columns in of)) for name in names}
    rest = {name: each for name, each in pipe.flows.items() if name not in flows}
    return Pipe(pipe.meta, {**rest, into: (np.any([mask for mask, _ in of], axis=0), merged)})


def _kept(columns: Columns, keep: Sequence[str] | None, where: np.ndarray) -> Columns:
    return {name: _guarded(columns[name], where) for name in (columns if keep is None else keep)}


_STEPS: Mapping[str, Callable[..., Pipe]] = {
    "where": _where,
    "select": _select,
    "with_columns": _select,
    "key_by": _key_by,
    "explode": _explode,
    "branch": _branch,
    "fork": _fork,
    "merge": _merge,
}


def _true(condition: str, columns: Columns) -> np.ndarray:
    return pc.fill_null(_value(condition, columns), False).to_numpy(zero_copy_only=False)


def _value(text: str, columns: Columns) -> pa.Array:
    found = _evaluated(_parsed(text), columns)
    rows = len(next(iter(columns.values())))
    return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found


@cache
def _parsed(text: str) -> sql.Expression:
    return sqlglot.parse_one(text, read="spark")


_TWO: Mapping[type[sql.Expression], Callable[[Any, Any], Any]] = {
    sql.And: pc.and_kleene,
    sql.Or: pc.or_kleene,
    sql.EQ: pc.equal,
    sql.NEQ: pc.not_equal,
    sql.GT: pc.greater,
    sql.GTE: pc.greater_equal,
    sql.LT: pc.less,
    sql.LTE: pc.less_equal,
    sql.Add: pc.add,
    sql.Sub: pc.subtract,
    sql.Mul: pc.multiply,
    sql.Div: lambda left, right: pc.divide(pc.cast(left, pa.float64()), pc.cast(right, pa.float64())),
}
_TYPES = {"BIGINT": pa.int64(), "INT": pa.int32(), "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string()}


def _evaluated(node: sql.Expression, columns: Columns) -> Any:
    """The value of an expression: an array, or a scalar if it reads no column."""

    def of(each: sql.Expression) -> Any:
        return _evaluated(each, columns)

    node = node.unnest()
    if type(node) in _TWO:
        return _TWO[type(node)](of(node.left), of(node.right))
    match node:
        case sql.Column():
            return columns[".".join(part.name for part in node.parts)]
        case sql.Literal():
            return pa.scalar(node.to_py())
        case sql.Neg():
            return pc.negate(of(node.this))
        case sql.Not():
            return pc.invert(of(node.this))
        case sql.Is():
            return pc.is_null(of(node.this))
        case sql.Cast():
            return pc.cast(of(node.this), _TYPES[node.to.this.name])
        case sql.Coalesce():
            return pc.coalesce(of(node.this), *map(of, node.expressions))
        case sql.Upper():
            return pc.utf8_upper(of(node.this))
        case sql.Concat():
            return pc.binary_join_element_wise(*map(of, node.expressions), "")
        case sql.Array():
            elements = [of(each).to_pylist() for each in node.expressions]
            return pa.array([list(each) for each in zip(*elements, strict=True)], pa.list_(pa.string()))
    raise NotImplementedError(f"{type(node).__name__} in {node.sql()}")
