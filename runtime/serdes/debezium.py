"""Debezium's envelope: changes of the rows of a database, as records and tombstones of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, shown, to_numpy
from .serde import Decoded, Deserializer, Direction, PayloadSpec, Problem, Role, Serde, Serializer, decoded

# An envelope has the row as it is now, what was done, when, and where:
#
#     {"before": null, "after": {"id": 1, "color": "red"}, "op": "c", "ts_ms": 1767225600000, "source": {"lsn": 24}}
#
# The columns of a topic are those of `after`. Columns about the change have names of their own, such as Debezium itself
# adds to records that it flattens.

_OP, _TS_MS, _SOURCE = "__op", "__ts_ms", "__source_"
_ROWS = pa.array(["c", "u", "r"])
"""The operations that leave a row: it was created, updated, or read by a snapshot."""

_UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes for a value that the database did not tell, such as a large one that was not changed."""


@dataclass(frozen=True)
class DebeziumSerde:
    """See `Serde`. `serde`: of keys, and of envelopes as columns."""

    serde: Serde

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        if direction is Direction.WRITE:
            return [Problem("`envelope: debezium` is for topics that are read; remove it")]
        if spec.role is Role.KEY:
            return self.serde.check(spec, direction)
        problems = self.serde.check(replace(spec, columns={**spec.columns, "op": pa.string()}), direction)
        return [problem for problem in problems if problem.column != "op"]

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        if spec.role is Role.KEY:
            return self.serde.deserializer(spec)
        return _Deserializer(self.serde.deserializer(replace(spec, columns=_envelope(spec.columns))), spec)

    def serializer(self, spec: PayloadSpec) -> Serializer:
        raise NotImplementedError("envelopes are read only")


def _envelope(columns: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The columns of an envelope that has the declared ones in it."""
    after = [(name, kind) for name, kind in columns.items() if not _is_about_change(name)]
    envelope = {"op": pa.string(), "after": pa.struct(after)}
    if _TS_MS in columns:
        envelope["ts_ms"] = columns[_TS_MS]
    source = [(name.removeprefix(_SOURCE), kind) for name, kind in columns.items() if name.startswith(_SOURCE)]
    return envelope | ({"source": pa.struct(source)} if source else {})


def _is_about_change(name: str) -> bool:
    return name in (_OP, _TS_MS) or name.startswith(_SOURCE)


@dataclass(frozen=True)
class _Deserializer:
    inner: Deserializer
    spec: PayloadSpec

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        read = self.inner.read(payloads)
        envelope = dict(zip(read.columns.schema.names, read.columns.columns, strict=True))
        deleted = to_numpy(pc.fill_null(pc.equal(envelope["op"], "d"), False))
        if read.deleted is not None:
            deleted = deleted | read.deleted
        present = to_numpy(payloads.is_valid()) & ~deleted
        order = pa.array(np.arange(len(payloads)), mask=~present)
        columns = [_column(name, envelope).take(order) for name in self.spec.columns]
        errors = self._unavailable(columns) | _not_rows(envelope, present) | dict(read.errors)
        return replace(decoded(self.spec, columns, len(payloads), errors), deleted=deleted)

    def _unavailable(self, columns: Sequence[pa.Array]) -> dict[int, str]:
        errors = dict[int, str]()
        for name, column in zip(self.spec.columns, columns, strict=True):
            if pa.types.is_string(column.type):
                rows = np.flatnonzero(to_numpy(pc.fill_null(pc.equal(column, _UNAVAILABLE), False)))
                why = f"column {name}: the database did not tell its value; set its replica identity to FULL"
                errors |= dict.fromkeys(rows.tolist(), why)
        return errors


def _column(name: str, envelope: Mapping[str, pa.Array]) -> pa.Array:
    if name == _OP:
        return envelope["op"]
    if name == _TS_MS:
        return envelope["ts_ms"]
    if name.startswith(_SOURCE):
        return pc.struct_field(envelope["source"], name.removeprefix(_SOURCE))
    return pc.struct_field(envelope["after"], name)


def _not_rows(envelope: Mapping[str, pa.Array], present: Bools) -> dict[int, str]:
    """Why envelopes have no row that is left."""
    ops, rows = envelope["op"], envelope["after"]
    errors = dict[int, str]()
    known = to_numpy(pc.is_in(ops, _ROWS))
    for row in np.flatnonzero(present & ~known).tolist():
        op = ops[row].as_py()
        if op is None:
            errors[row] = "no envelope of Debezium: it has no `op`"
        elif op == "t":
            errors[row] = "the table was truncated, which is no change of one row; delete the rows, or reset the topic"
        else:
            errors[row] = f"the operation {shown(op)} is no change of a row"
    missing = present & known & to_numpy(rows.is_null())
    return errors | dict.fromkeys(np.flatnonzero(missing).tolist(), "the envelope has no row in `after`")
