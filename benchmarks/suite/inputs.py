"""The records of the measurements: the same for both sides and in every run.

Kinds are `typed` (k, v, ts), `double` (k, d, ts), `keyed` (k, other, v, ts: `other` is a key of its own), `foreign`
(the same, but ten keys have the same `other` all the time), `json` (k, value: an object of 43 bytes, ts) and `visits`
(k, v, ts). An epoch lasts a quarter of an hour of event time, so that every fourth one begins an hour; all `visits` are
in its first five minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .sizes import Size

EPOCH_SECONDS, VISITS_SECONDS = 900, 300
JSON_BYTES = 43

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "typed": {"v": "bigint", "ts": "timestamp"},
    "double": {"d": "double", "ts": "timestamp"},
    "keyed": {"other": "string", "v": "bigint", "ts": "timestamp"},
    "foreign": {"other": "string", "v": "bigint", "ts": "timestamp"},
    "visits": {"v": "bigint", "ts": "timestamp"},
    "json": {"value": "string", "ts": "timestamp"},
}
"""Kind -> the value columns. The key is `k string` everywhere."""

SAME_OTHER = 10
"""Keys that have the same `other`, of kind `foreign`."""

ROWS = 100_000
"""Rows of the table that records are joined with, or as many as there are keys where that is less."""


def epoch(kind: str, number: int, size: Size) -> pa.Table:
    """The records of an epoch, in the order of their times. The same for the same arguments."""
    rng = np.random.default_rng((number, size.keys))
    names = key_names(size.keys)
    keys = rng.integers(0, size.keys, size.records)
    columns: dict[str, pa.Array] = {"k": names.take(pa.array(keys))}
    numbers = rng.integers(0, 1000, size.records)
    if kind == "double":
        columns["d"] = pa.array(rng.normal(0, 1000, size.records))
    elif kind == "json":
        columns["value"] = _objects(numbers, rng.integers(0, 10**9, size.records))
    else:
        if kind == "keyed":
            columns["other"] = names.take(pa.array(rng.integers(0, size.keys, size.records)))
        elif kind == "foreign":
            columns["other"] = names.take(pa.array(keys // SAME_OTHER))
        columns["v"] = pa.array(numbers)
    seconds = VISITS_SECONDS if kind == "visits" else EPOCH_SECONDS
    micros = np.arange(size.records) * (seconds * 1_000_000) // size.records + number * EPOCH_SECONDS * 1_000_000
    columns["ts"] = pa.array(micros, pa.timestamp("us", "UTC"))
    return pa.table(columns)


def rows_of_table(size: Size) -> pa.Table:
    """The table: k, name, ts. Each key that records have, up to ROWS of them."""
    keys = key_names(size.keys).slice(0, ROWS)
    begun = pa.array(np.zeros(len(keys), np.int64), pa.timestamp("us", "UTC"))
    return pa.table({"k": keys, "name": pc.binary_join_element_wise("name of", keys, " "), "ts": begun})


def write_files(kind: str, folder: Path, epochs: int, size: Size) -> None:
    """What the peer reads: a folder for each epoch with a Parquet file for each partition or segment, and a table."""
    folder.mkdir(parents=True)
    pq.write_table(rows_of_table(size), folder / "table.parquet", compression="zstd")
    for number in range(epochs):
        records = epoch(kind, number, size)
        part = folder / epoch_name(number)
        part.mkdir()
        for file, rows in enumerate(_in_files(records, size)):
            pq.write_table(rows, part / f"{file:04d}.parquet", compression="zstd")


def _in_files(records: pa.Table, size: Size) -> Iterator[pa.Table]:
    """A part for each partition; if there are several segments, one for each of these."""
    if size.segments > 1:
        yield from appends(records, size)
        return
    where = partition_of_rows(records["k"], size)
    for partition in range(size.partitions):
        yield records.filter(pa.array(where == partition))


def appends(records: pa.Table, size: Size) -> Iterator[pa.Table]:
    """An epoch's records as they are appended."""
    rows = -(-size.records // size.segments)
    for start in range(0, size.records, rows):
        yield records.slice(start, rows)


def epoch_name(number: int) -> str:
    """The folder of an epoch's files."""
    return f"e{number:04d}"


def partition_of_rows(keys: pa.ChunkedArray, size: Size) -> npt.NDArray[np.int64]:
    """The file of each row: a key stays in its partition."""
    numbers: npt.NDArray[np.int64] = pc.cast(pc.utf8_slice_codeunits(keys, 1), pa.int64()).to_numpy()
    return numbers % size.partitions


@lru_cache(2)
def key_names(keys: int) -> pa.Array:
    """All keys: texts of nine characters."""
    padded = pc.utf8_lpad(pa.array(np.arange(keys)).cast(pa.string()), 8, "0")
    return pc.binary_join_element_wise("k", padded, "")


def _objects(numbers: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> pa.Array:
    """JSON objects with a number, a number that is not read, and a text; all of JSON_BYTES bytes."""
    first = pc.utf8_lpad(pa.array(numbers + 1000).cast(pa.string()), 4, "0")
    second = pc.utf8_lpad(pa.array(others + 10**9).cast(pa.string()), 10, "0")
    return pc.binary_join_element_wise('{"v":', first, ',"id":', second, ',"city":"Hamburg"}', "")
