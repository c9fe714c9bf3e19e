"""Restoring writes only the last change of each key: what comes of it is what all changes in order come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.state.catch_up import LastChanges, apply_slices, slices
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.store import Changes
from headwater.runtime.tasks.plan import StoreInput

Change = tuple[bytes, bytes | None]

LONG = b"k" * 600
KEYS = st.sampled_from([b"a", b"a\0", b"b", b"\x01", b"\xfe", LONG + b"1", LONG + b"2", LONG[:495], LONG[:496]])
CHANGES = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), min_size=1, max_size=60)


def naive(changes: Sequence[Change]) -> dict[bytes, bytes]:
    rows = dict(changes)
    return {key: value for key, value in rows.items() if value is not None}


def batch(changes: Sequence[Change]) -> pa.RecordBatch:
    keys, values = zip(*changes, strict=True)
    return pa.record_batch([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"])


@given(CHANGES, st.integers(1, 70), st.integers(1, 9))
def test_changes_in_cuts_of_any_size_leave_the_last_one_of_each_key_in_order(
    changes: list[Change], cut: int, fold_records: int
) -> None:
    last = LastChanges(fold_records)
    for start in range(0, len(changes), cut):
        last.add(batch(changes[start : start + cut]))

    keys, values = last.changes()

    assert dict(zip(keys, values, strict=True)) == dict(changes)
    assert list(keys) == sorted(dict(changes))


@settings(max_examples=40, deadline=None)
@given(CHANGES, st.integers(1, 70), st.integers(1, 20), st.randoms(use_true_random=False))
def test_store_that_is_restored_in_any_steps_has_the_rows_of_all_changes_in_order(
    changes: list[Change], segment: int, most: int, chances: Random
) -> None:
    with TemporaryDirectory() as folder:
        log, store = EmbeddedLog(Path(folder) / "log"), LmdbStore(Path(folder) / "store")
        try:
            ranges = written(log, changes, segment)
            steps = slices(StoreInput("s", 0, len(changes), tuple(ranges)), 0, most)
            while apply_slices(store, steps, log, lambda: chances.random() < 0.7):
                assert dict(store.range(None, None)) == naive(changes[: store.position])
            assert store.position == len(changes)
        finally:
            store.close()


def written(log: EmbeddedLog, changes: Sequence[Change], cut: int) -> list[LogRange]:
    bounds = [*range(0, len(changes), cut), len(changes)]
    ranges = []
    for start, end in pairwise(bounds):
        keys, values = zip(*changes[start:end], strict=True)
        table = pa.table([keys, values, [0] * (end - start)], schema=CHANGELOG)
        (found,) = log.write("a", "t", f"{start}", table, 0, 0)
        ranges.append(replace(found, base_offset=start, base_position=start).range())
    return ranges


class NotedStore(LmdbStore):
    """Notes what is written."""

    written: list[Changes]

    def apply(self, changes, from_position, position, expire_below=None):  # type: ignore[no-untyped-def]
        self.written = [*getattr(self, "written", []), *(changes := list(changes))]
        super().apply(changes, from_position, position, expire_below)


def test_hot_changelog_costs_its_keys_not_its_records(tmp_path: Path) -> None:
    log, store = EmbeddedLog(tmp_path / "log"), NotedStore(tmp_path / "store")
    changes = [(b"%d" % (number % 10), b"%d" % number) for number in range(200_000)]
    steps = slices(StoreInput("s", 0, len(changes), tuple(written(log, changes, 50_000))), 0)

    assert apply_slices(store, steps, log) == 4

    ((keys, values),) = store.written
    assert list(keys) == [b"%d" % number for number in range(10)]
    assert list(values) == [b"%d" % number for number in range(199_990, 200_000)]
    assert store.position == 200_000
