from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.restore.changelog_strategy import ChangelogRestore
from headwater.runtime.state.catch_up import apply_slice
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.restore_strategy import RestoreRequest
from headwater.runtime.tasks.errors import TaskCorruptedError


def changelog(log: EmbeddedLog, sizes: list[int]) -> tuple[LogRange, ...]:
    ranges: list[LogRange] = []
    for number, size in enumerate(sizes):
        keys = [b"%d-%d" % (number, row) for row in range(size)]
        table = pa.table([keys, keys, [0] * size], schema=CHANGELOG)
        (segment,) = log.write("a", "t", f"{number}", table, 0, 0)
        base = sum(sizes[:number])
        ranges.append(replace(segment, base_offset=base, base_position=base).range())
    return tuple(ranges)


def test_each_slice_takes_the_store_a_step_nearer_to_the_target(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    ranges = changelog(log, [4, 4, 4])
    store = LmdbStore(tmp_path / "store")

    positions = []
    for step in ChangelogRestore(slice_records=5).slices(RestoreRequest("s", 0, 0, 12, ranges)):
        apply_slice(store, step, log)
        positions.append(store.position)

    assert positions == [5, 10, 12]
    assert sum(1 for _ in store.range(None, None)) == 12


def test_store_at_its_target_needs_nothing() -> None:
    assert list(ChangelogRestore().slices(RestoreRequest("s", 0, 12, 12, ()))) == []


def test_ranges_that_do_not_reach_the_target_are_corrupt(tmp_path: Path) -> None:
    ranges = changelog(EmbeddedLog(tmp_path / "log"), [4])

    with pytest.raises(TaskCorruptedError, match=r"records 4 to 5"):
        list(ChangelogRestore().slices(RestoreRequest("s", 0, 0, 6, ranges)))
