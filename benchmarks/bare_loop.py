"""The physical limit: the same work as a bare loop over Arrow and LMDB, in one process, with nothing around it.

    python -m benchmarks.bare_loop [--only keyed_count,table_join] [--epochs 5]

For each partition it reads Arrow files as the log has them, computes with Arrow and NumPy, looks the old rows up and
puts the new ones in one transaction of LMDB, and writes the results as an Arrow file; the store and the file are on the
disk before it goes on. It has no offsets, timestamps, changelogs, commits or plans, and nobody could start it again
after a kill: it says what a machine takes for the work itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from . import bare_joins
from .loop_windows import Column, Groups, in_quarters, in_sessions, in_slides, windowed
from .suite import inputs
from .suite.sizes import Size
from .suite.workloads import ALONE, SMALL, WORKLOADS, Workload

WARM_UP = 2
MAP_BYTES = 2**32
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


Joined = Callable[[lmdb.Environment, pa.Table], pa.Table]
"""The store of a partition and records -> what becomes of them."""


@dataclass(frozen=True)
class Work:
    """What is done with the records of a partition: they are grouped, or joined.

    `each`: each record gives a result, not each key. `final`: the results are the rows of the windows before that of
    the last record, which no epoch has given. `moved`: what is done first, and by which column the records are then
    written to other partitions.
    """

    groups: Groups | None = None
    each: bool = False
    final: bool = False
    joined: Joined | None = None
    moved: tuple[tuple[Joined, str], ...] = ()


def _summed(value: str, key: str = "k") -> Groups:
    def groups(rows: pa.Table) -> tuple[pa.Array, pa.Table]:
        found = rows.group_by(key).aggregate([([], "count_all"), (value, "sum")])
        return found[key].combine_chunks().cast(pa.binary()), found.select(["count_all", f"{value}_sum"])

    return groups


def _filtered(rows: pa.Table) -> tuple[pa.Array, pa.Table]:
    left = rows.filter(pc.field("v") >= 10)
    return _summed("v")(left.set_column(1, "v", pc.add_checked(pc.multiply_checked(left["v"], 2), 1)))


def _parsed(rows: pa.Table) -> tuple[pa.Array, pa.Table]:
    text = pa.BufferReader("\n".join(rows["value"].to_pylist()).encode())
    fields = pj.ParseOptions(explicit_schema=pa.schema({"v": pa.int64()}), unexpected_field_behavior="ignore")
    return _summed("v")(rows.append_column("v", pj.read_json(text, parse_options=fields)["v"]))


def _as_they_are(_: lmdb.Environment, rows: pa.Table) -> pa.Table:
    return rows


WORK: Mapping[str, Work] = {
    "keyed_count": Work(_summed("v")),
    "filtered_count": Work(_filtered),
    "sum_double": Work(_summed("d")),
    "each_update": Work(_summed("v"), each=True),
    "window_count": Work(windowed(1)),
    "hopping_count": Work(windowed(4)),
    "suppress_count": Work(in_quarters, final=True),
    "session_count": Work(in_sessions, final=True),
    "sliding_count": Work(in_slides),
    "table_join": Work(joined=bare_joins.named),
    "table_join_updates": Work(joined=bare_joins.kept_and_named),
    "stream_join": Work(joined=bare_joins.paired),
    "foreign_key_join": Work(joined=bare_joins.answered, moved=((bare_joins.kept, "other"), (bare_joins.asked, "k"))),
    "process_rows": Work(_summed("v"), each=True),
    "process_batch": Work(_summed("v")),
    "rekey_count": Work(_summed("v", "other"), moved=((_as_they_are, "other"),)),
    "json_count": Work(_parsed),
    SMALL.name: Work(_summed("v")),
}


def _workload(name: str) -> Workload:
    return {**WORKLOADS, **ALONE, SMALL.name: SMALL}[name]


class Loop:
    """The loop over one folder, with a store for each partition. The table's rows are there from the start."""

    def __init__(self, folder: Path, name: str, size: Size) -> None:
        self._folder, self._work, self._size = folder, WORK[name], size
        self._kind = _workload(name).kind
        self._stores = [self._store(folder / f"store-{number}") for number in range(size.partitions)]
        if self._work.joined is not None:
            table = inputs.rows_of_table(size)
            where = inputs.partition_of_rows(pa.chunked_array([table["k"].combine_chunks()]), size)
            for partition, store in enumerate(self._stores):
                mine = table.filter(pa.array(where == partition))
                _put(store, mine["k"].to_pylist(), mine["name"].to_pylist())

    def prepare(self, number: int) -> None:
        """Write the files of an epoch: what is not measured."""
        records = inputs.epoch(self._kind, number, self._size)
        for partition, rows in enumerate(self._divided(records, "k")):
            _write(self._folder / f"in-{number}-{partition}", rows)

    def take(self, number: int) -> float:
        """Seconds for the records of an epoch."""
        begun = time.perf_counter()
        names = [f"in-{number}-{partition}" for partition in range(self._size.partitions)]
        for leg, (work, column) in enumerate(self._work.moved):
            names = list(self._moved(f"moved-{number}-{leg}", names, work, column))
        for partition, name in enumerate(names):
            results = self._results(partition, _read(self._folder / name))
            _write(self._folder / f"out-{number}-{partition}", results)
        return time.perf_counter() - begun

    def close(self) -> None:
        """Close the stores."""
        for each in self._stores:
            each.close()

    def _store(self, path: Path) -> lmdb.Environment:
        return lmdb.open(str(path), map_size=MAP_BYTES, sync=True)

    def _divided(self, rows: pa.Table, key: str) -> Iterator[pa.Table]:
        where = inputs.partition_of_rows(rows[key], self._size)
        order = np.argsort(where, kind="stable")
        ends = np.searchsorted(where[order], np.arange(self._size.partitions + 1))
        sorted_rows = rows.take(pa.array(order))
        for start, end in pairwise(ends):
            yield sorted_rows.slice(start, end - start)

    def _moved(self, name: str, names: Sequence[str], work: Joined, column: str) -> Iterator[str]:
        parts = [work(store, _read(self._folder / each)) for store, each in zip(self._stores, names, strict=True)]
        for partition, part in enumerate(self._divided(pa.concat_tables(parts), column)):
            _write(self._folder / f"{name}-{partition}", part)
            yield f"{name}-{partition}"

    def _results(self, partition: int, rows: pa.Table) -> pa.Table:
        store = self._stores[partition]
        if self._work.joined is not None:
            return self._work.joined(store, rows)
        assert self._work.groups is not None
        keys, added = self._work.groups(rows)
        order = pc.sort_indices(keys)
        sorted_keys = keys.take(order).to_pylist()
        columns = [added[name].combine_chunks().take(order).to_numpy() for name in added.column_names]
        changed = _added(store, sorted_keys, columns)
        if self._work.final:
            return _closed(store, sorted_keys[-1][:8])
        if self._work.each:
            before = [now - more for now, more in zip(changed, columns, strict=True)]
            return _running(rows, pa.array(sorted_keys, pa.binary()), before)
        return pa.table({"k": pa.array(sorted_keys, pa.binary())} | {f"c{i}": each for i, each in enumerate(changed)})

    def counts(self) -> Iterator[int]:
        """How many records each row of the stores has counted."""
        for store in self._stores:
            with store.begin() as transaction:
                yield from (int(np.frombuffer(row, np.int64, 1)[0]) for _, row in transaction.cursor())


def _added(store: lmdb.Environment, keys: Sequence[bytes], columns: Sequence[Column]) -> list[Column]:
    """Add to the rows of some keys, in their order, and put them back. The new rows, by column."""
    layout = np.dtype([(f"c{number}", column.dtype) for number, column in enumerate(columns)])
    blank = bytes(layout.itemsize)
    with store.begin(write=True) as transaction:
        before = np.frombuffer(b"".join([transaction.get(key, blank) for key in keys]), layout)
        after = np.empty(len(keys), layout)
        for number, column in enumerate(columns):
            after[f"c{number}"] = before[f"c{number}"] + column
        raw, width = after.tobytes(), layout.itemsize
        rows = [(key, raw[at * width : (at + 1) * width]) for at, key in enumerate(keys)]
        transaction.cursor().putmulti(rows)
    return [after[f"c{number}"] for number in range(len(columns))]


def _closed(store: lmdb.Environment, last: bytes) -> pa.Table:
    """The counts of the window before the one that begins with `last`, which are final."""
    first = max(int.from_bytes(last, "big") - 1, 0).to_bytes(8, "big")
    keys, counts = [], []
    with store.begin() as transaction:
        cursor = transaction.cursor()
        for key, row in cursor.iternext() if cursor.set_range(first) else ():
            if key >= last:
                break
            keys.append(key[8:])
            counts.append(row)
    return pa.table({"k": pa.array(keys, pa.binary()), "n": np.frombuffer(b"".join(counts), np.int64)})


def _running(rows: pa.Table, keys: pa.Array, before: Sequence[Column]) -> pa.Table:
    """A result for each record: the number and the sum of its key's records up to it. `before`: of each key's row."""
    codes = pc.index_in(rows["k"].combine_chunks().cast(pa.binary()), keys).to_numpy()
    order = np.argsort(codes, kind="stable")
    values, sorted_codes = rows["v"].to_numpy()[order], codes[order]
    starts = np.flatnonzero(np.r_[True, sorted_codes[1:] != sorted_codes[:-1]])
    lengths = np.diff(np.r_[starts, len(order)])
    sums, of_keys = np.cumsum(values), sorted_codes[starts]
    total, count = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    total[order] = sums + np.repeat(before[1][of_keys] - sums[starts] + values[starts], lengths)
    count[order] = np.arange(1, len(order) + 1) + np.repeat(before[0][of_keys] - starts, lengths)
    return pa.table({"k": rows["k"], "n": count, "total": total})


def _put(store: lmdb.Environment, keys: Sequence[str], values: Sequence[str]) -> None:
    with store.begin(write=True) as transaction:
        transaction.cursor().putmulti((key.encode(), value.encode()) for key, value in zip(keys, values, strict=True))


def _read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all()


def _write(path: Path, rows: pa.Table) -> None:
    with path.open("wb") as file:
        with pa.ipc.new_stream(file, rows.schema, options=_OPTIONS) as writer:
            writer.write_table(rows, max_chunksize=16_384)
        file.flush()
        os.fsync(file.fileno())


def seconds_an_epoch(name: str, size: Size, epochs: int = 5) -> float:
    """The median of so many epochs behind a warm-up."""
    found = []
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
        loop = Loop(Path(folder), name, size)
        for number in range(WARM_UP + epochs):
            loop.prepare(number)
            found.append(loop.take(number))
        loop.close()
    return statistics.median(found[WARM_UP:])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(WORK), help="names, with commas between them")
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args(arguments)
    for name in options.only.split(","):
        size = Size(records=1000) if name == SMALL.name else _workload(name).sized(Size())
        seconds = seconds_an_epoch(name, size, options.epochs)
        print(f"{name:16} {seconds:.3f} s an epoch, {size.records / seconds:,.0f} records a second", flush=True)


if __name__ == "__main__":
    main()
