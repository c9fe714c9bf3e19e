"""What the bare loop adds to its stores where records are in windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

QUARTER, MINUTE = 900, 60_000
"""In seconds, and in milliseconds."""

Column = np.ndarray[tuple[int], np.dtype[Any]]

Groups = Callable[[pa.Table], tuple[pa.Array, pa.Table]]
"""Records -> the keys of a store, as bytes; and of each key what is added to its row: columns of int64 or double."""


def windowed(windows: int) -> Groups:
    def groups(rows: pa.Table) -> tuple[pa.Array, pa.Table]:
        quarter = pc.divide(rows["ts"].cast(pa.int64()), QUARTER * 1_000_000)
        begin = pc.multiply(pc.divide(quarter, 4), 4) if windows == 1 else quarter
        found = rows.append_column("begin", begin).group_by(["k", "begin"]).aggregate([([], "count_all")])
        keys, begins = found["k"].combine_chunks().cast(pa.binary()), found["begin"].to_numpy()
        parts = [_with_window(keys, begins - back) for back in range(windows)]
        counts = pa.chunked_array([found["count_all"].combine_chunks()] * windows)
        together = pa.table({"k": pa.concat_arrays(parts), "n": counts}).group_by("k").aggregate([("n", "sum")])
        return together["k"].combine_chunks(), together.select(["n_sum"])

    return groups


def in_quarters(rows: pa.Table) -> tuple[pa.Array, pa.Table]:
    """Counts by quarter and key, whose rows lie quarter by quarter."""
    quarter = pc.divide(rows["ts"].cast(pa.int64()), QUARTER * 1_000_000)
    found = rows.append_column("begin", quarter).group_by(["k", "begin"]).aggregate([([], "count_all")])
    begins = pa.array(found["begin"].to_numpy().astype(">i8").view("V8").tolist(), pa.binary())
    keys = pc.binary_join_element_wise(begins, found["k"].combine_chunks().cast(pa.binary()), b"")
    return keys, found.select(["count_all"])


def in_sessions(rows: pa.Table) -> tuple[pa.Array, pa.Table]:
    """Counts by quarter, start of a session and key, whose rows lie quarter by quarter. No session is in two epochs."""
    keys, code, time = _by_key_and_time(rows)
    begins = np.ones(len(code), np.bool_)
    begins[1:] = (np.diff(code) != 0) | (np.diff(time) >= MINUTE)
    first = np.flatnonzero(begins)
    start = time[first]
    prefix = np.stack([start // (QUARTER * 1000), start], axis=1).astype(">i8").view("V16").ravel().tolist()
    counts = np.diff(first, append=len(code))
    return _behind(prefix, keys.take(pa.array(code[first]))), pa.table({"n": counts})


def in_slides(rows: pa.Table) -> tuple[pa.Array, pa.Table]:
    """Counts by start of a sliding window and key, of windows that end at a record or begin right behind one. Those
    that reach over two epochs have what is in each.
    """
    keys, code, time = _by_key_and_time(rows)
    # A number for key and time, in the order of both.
    length = int(time.max()) + MINUTE + 2
    place = code * length + time
    start = np.unique(np.concatenate([place - np.minimum(time, MINUTE), place + 1]))
    counts = np.searchsorted(place, start + MINUTE, side="right") - np.searchsorted(place, start)
    start, counts = start[counts > 0], counts[counts > 0]
    prefix = (start % length).astype(">i8").view("V8").tolist()
    return _behind(prefix, keys.take(pa.array(start // length))), pa.table({"n": counts})


def _by_key_and_time(rows: pa.Table) -> tuple[pa.Array, Column, Column]:
    """(The keys, the number of each record's key, its time in ms), by key and time."""
    coded = rows["k"].combine_chunks().dictionary_encode()
    code, time = coded.indices.to_numpy().astype(np.int64), rows["ts"].cast(pa.int64()).to_numpy() // 1000
    order = np.lexsort((time, code))
    return coded.dictionary.cast(pa.binary()), code[order], time[order]


def _behind(prefix: list[bytes], keys: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.array(prefix, pa.binary()), keys, b"")


def _with_window(keys: pa.Array, begins: Column) -> pa.Array:
    suffix = pa.array(begins.astype(">i8").view("S8").tolist(), pa.binary())
    return pc.binary_join_element_wise(keys, pc.fill_null(suffix, b""), b"")
