"""The rows that an aggregation takes, by key, or by key and window."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from ...records.arrays import Int64s
from ...records.keys.encoding import encode_keys
from ...records.keys.windows import window_keys
from ...records.kinds import Kind
from ...topology import Store
from ...windows import Window
from ..rows import Rows, null_keys
from ..task_epoch import TaskEpoch
from ..windows import assign, window_column
from .codes import by_key, by_window, group_by


@dataclass(frozen=True)
class Grouped:
    """Rows by key, or by key and window. `code`: the group of each row. `keys`: the groups' in the store, in its order.

    `columns`: the key columns of each group.
    """

    rows: Rows
    code: Int64s
    keys: pa.BinaryArray
    columns: Mapping[str, pa.Array]


def usable(rows: Rows, store: Store, step: str, epoch: TaskEpoch) -> Rows:
    """The rows with a key and, without windows, with a value. Others are counted as dropped by the `step`."""
    null = null_keys(list(rows.keys.values()), len(rows))
    epoch.drop(step, "null_key", int(null.sum()))
    if store.window is not None:
        return rows.filter(~null)
    empty = rows.kind == Kind.TOMBSTONE
    epoch.drop(step, "null_value", int((empty & ~null).sum()))
    return rows.filter(~null & ~empty)


def grouped(rows: Rows, store: Store, used: Collection[str | None], step: str, epoch: TaskEpoch) -> Grouped:
    """The rows by key, and by window: a row for each open window of each record.

    `used`: the columns that are needed of rows that are in several windows. `step`: which counts the late ones.
    """
    code, first = group_by([*rows.keys.values()])
    code, first, keys = by_key(code, first, encode_keys([each.take(pa.array(first)) for each in rows.keys.values()]))
    columns = {name: column.take(pa.array(first)) for name, column in rows.keys.items()}
    window = store.window
    if window is None:
        return Grouped(rows, code, keys, columns)
    assert isinstance(window, Window)
    rows, record, number = _windowed(rows, store, window, used, step, epoch)
    groups = by_window(code if record is None else code[record], len(first), number)
    of_key, start = pa.array(groups.key), groups.window * window.advance_ms
    times = {"window_start": window_column(start), "window_end": window_column(start + window.size_ms)}
    columns = {name: column.take(of_key) for name, column in columns.items()} | times
    return Grouped(rows, groups.code, window_keys(start, keys.take(of_key)), columns)


def _windowed(
    rows: Rows, store: Store, window: Window, used: Collection[str | None], step: str, epoch: TaskEpoch
) -> tuple[Rows, Int64s | None, Int64s]:
    """A row for each open window of each record, of which record it is (None: as they are), and which window."""
    windowed = assign(rows.timestamp, window, epoch.clock(store.name))
    epoch.advance(store.name, windowed.clock)
    epoch.let_pass(store.name)
    record, number = windowed.record, windowed.number
    if windowed.late.any():
        epoch.drop(step, "late", int(windowed.late.sum()))
        record, number = record[~windowed.late], number[~windowed.late]
    # Each record has one open window, as in tumbling windows without late records: no copy is needed.
    if len(number) == len(rows) == len(windowed.record):
        return rows, None, number
    columns = {name: column for name, column in rows.columns.items() if name in used}
    narrow = replace(rows, columns=columns, key=(), value=())
    return narrow.take(record).deeper(number), record, number
