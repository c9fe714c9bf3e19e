"""The stores of one task, kept by LMDB and by RocksDB beside each other: what is written down, given up and closed."""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.runtime.ir.topology import Store
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.state.catch_up import TimeBudget
from headwater.runtime.state.lmdb.store import LmdbBackend, LmdbStore
from headwater.runtime.state.processor_state_manager import (
    BYTES_THRESHOLD_FOR_CHECKPOINT,
    OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT,
    IllegalStoreError,
    ProcessorStateManager,
)
from headwater.runtime.state.rocksdb.store import RocksdbBackend
from headwater.runtime.state.store import (
    StateStore,
    StoreBackend,
    StoreDamagedError,
    StoreUnusableError,
    UnfitStoreError,
)
from headwater.runtime.task_id import TaskKey
from headwater.runtime.tasks.plan import StoreInput

TASK = TaskKey("app", "part", 3)
A, B = (Store(name, 4, "k string", "v string", backend="rocksdb") for name in "ab")
KEPT = Store("k", 4, "k string", "v string")
BACKENDS: dict[str, StoreBackend] = {"rocksdb": RocksdbBackend(), "lmdb": LmdbBackend()}


@dataclass
class Disk:
    """A client's stores, and the changelogs of their partition in a log."""

    root: Path
    ends: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, list[LogRange]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = EmbeddedLog(self.root / "log")

    def manager(self, *stores: Store) -> ProcessorStateManager:
        manager = ProcessorStateManager(TASK, self.path, self.log, lambda store: BACKENDS[store.backend])
        for store in stores:
            manager.register(store)
        return manager

    def path(self, store: str) -> Path:
        return self.root / "state" / store / "3"

    def append(self, store: str, count: int, size: int = 0) -> StoreInput:
        """Records of as many keys; what brings the store to the end."""
        start = self.ends.get(store, 0)
        keys = [b"%08d" % number for number in range(start, start + count)]
        table = pa.table([keys, [os.urandom(size) for _ in keys], [0] * count], schema=CHANGELOG)
        (segment,) = self.log.write("app", store, f"{start}", table, 0, 0)
        found = replace(segment, base_offset=start, base_position=start).range()
        self.ranges.setdefault(store, []).append(found)
        self.ends[store] = start + count
        return self.rest(store)

    def rest(self, store: str) -> StoreInput:
        return StoreInput(store, 0, self.ends[store], tuple(self.ranges[store]))

    def written(self) -> dict[str, str]:
        """The stores' lines of the checkpoint files that there are."""
        files = [self.path(name) / ".checkpoint" for name in "ab"]
        lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
        return {line[0]: line for line in lines if line.startswith(("a ", "b "))}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_store_is_registered_once_and_not_under_the_name_of_the_checkpoint_file(disk: Disk) -> None:
    manager = disk.manager(A, KEPT)

    with pytest.raises(IllegalStoreError, match="task part_3: store 'a' has been registered already"):
        manager.register(A)
    with pytest.raises(IllegalStoreError, match="has the name of the checkpoint file"):
        manager.register(replace(A, name=".checkpoint"))
    assert manager.changelog_offsets() == {"a": 0, "k": 0}
    assert manager.get_store("b") is None


class _OldStore(LmdbStore):
    def range(self, start, end):  # as stores of plugins had it before `reverse`
        return super().range(start, end)


class _HalfStore(LmdbStore):
    apply = None


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [(_OldStore, "has a method range without the argument reverse"), (_HalfStore, "has no method apply")],
)
def test_store_of_a_plugin_that_cannot_be_called_as_a_store_is_refused_when_it_is_opened(
    tmp_path: Path, kind: type[LmdbStore], lacks: str
) -> None:
    class Backend(LmdbBackend):
        def open(self, directory: Path) -> StateStore:
            return kind(directory)

    manager = ProcessorStateManager(TASK, lambda name: tmp_path / name / "3", Disk(tmp_path).log, lambda _: Backend())

    with pytest.raises(UnfitStoreError) as caught:
        manager.register(KEPT)

    assert caught.value.message == f"the store backend 'lmdb' opens a store that {lacks}"
    assert "headwater.runtime.state.store.StateStore" in str(caught.value.hint)


def test_positions_are_written_when_more_than_10_000_records_of_all_stores_together_are_not(disk: Disk) -> None:
    manager = disk.manager(A, B, KEPT)
    manager.restore(disk.append("a", OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT - 10))
    manager.restore(disk.append("b", 10))
    manager.restore(disk.append("k", OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT))
    assert disk.written() == {}, "LMDB has its position in its transaction, and counts for nothing here"

    manager.restore(disk.append("b", 1))
    assert disk.written() == {"a": "a 3 9989", "b": "b 3 10"}

    manager.catch_up(disk.append("b", 5))
    assert disk.written() == {"a": "a 3 9989"}, "what is not on the disk is not told to be"
    assert not manager.checkpoint()
    manager.flush()
    assert disk.written() == {"a": "a 3 9989", "b": "b 3 15"}


def test_positions_are_written_when_few_records_are_many_bytes(disk: Disk) -> None:
    manager = disk.manager(A)
    manager.restore(disk.append("a", 10, BYTES_THRESHOLD_FOR_CHECKPOINT // 10 - 100))
    assert disk.written() == {}
    manager.restore(disk.append("a", 1, 2000))
    assert disk.written() == {"a": "a 3 10"}


def test_another_manager_finds_the_stores_where_they_were_left(disk: Disk) -> None:
    """A task that is recycled, resumed or run by another process goes on with the same stores."""
    first = disk.manager(A, KEPT)
    first.restore(disk.append("a", 5))
    first.catch_up(disk.append("k", 7))

    second = disk.manager(A, KEPT)
    assert second.changelog_offsets() == {"a": 5, "k": 7}
    second.restore(disk.append("a", 1))
    second.close()
    assert disk.manager(A, KEPT).changelog_offsets() == {"a": 6, "k": 7}
    assert disk.written() == {"a": "a 3 5"}


def test_damaged_store_is_left_out_until_it_begins_again_and_its_neighbours_stay(disk: Disk) -> None:
    manager = disk.manager(A, B, KEPT)
    for name in "abk":
        manager.restore(disk.append(name, 100))
    manager.close()
    for file in (disk.path("a") / "db").glob("*.sst"):
        os.truncate(file, 50)

    with pytest.raises(StoreDamagedError):
        manager.verify("a")
    assert manager.changelog_offsets() == {"b": 100, "k": 100}
    manager.restore(disk.append("b", 1))
    manager.checkpoint(enforce=True)
    assert disk.written() == {"b": "b 3 100"}

    assert manager.reinitialize("a") == 0
    assert manager.restore(disk.rest("a")) == 100
    assert manager.verify("k") == 100


def test_store_that_is_deleted_is_the_only_one_and_may_be_registered_again(disk: Disk) -> None:
    manager = disk.manager(A, KEPT)
    for name in "ak":
        manager.restore(disk.append(name, 10))

    manager.delete("a", shutil.rmtree)
    assert not disk.path("a").exists()
    assert manager.changelog_offsets() == {"k": 10}
    manager.register(A)
    assert manager.restore(disk.rest("a")) == 10


def test_restore_stops_when_its_time_is_over_and_goes_on_from_there(disk: Disk) -> None:
    manager = disk.manager(KEPT)
    for _ in range(3):
        planned = disk.append("k", 10)

    over = TimeBudget(0)
    assert [manager.restore(planned, 10, over) for _ in range(4)] == [10, 20, 30, 30]


def test_store_that_is_ahead_is_left_as_it_is_and_told_to_be_there(disk: Disk) -> None:
    manager = disk.manager(KEPT)
    planned = disk.append("k", 10)
    manager.restore(disk.append("k", 10))

    assert manager.restore(planned) == 20
    assert manager.position("k") == 20


def test_store_that_has_lost_rows_without_a_changelog_begins_empty_and_says_so(disk: Disk) -> None:
    manager = disk.manager(replace(KEPT, changelog=False))
    disk.append("k", 10)
    planned = replace(disk.append("k", 5), ranges=tuple(disk.ranges["k"][1:]))

    assert manager.restore(planned) == 15
    assert manager.lost == {"k"}
    assert list(manager.get_store("k").range(None, None)) == []


def test_all_stores_are_closed_in_order_and_the_first_error_is_raised(disk: Disk) -> None:
    manager = disk.manager(B, A, KEPT)
    for name in "bak":
        manager.restore(disk.append(name, 1000, 500))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(StoreUnusableError) as raised:
            manager.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert Path(raised.value.path).is_relative_to(disk.path("b"))
    assert not (disk.path("k") / "unsynced").exists()
    again = disk.manager(A, B, KEPT)
    for name in "ab":
        with pytest.raises(StoreDamagedError):
            again.position(name)
        assert again.reinitialize(name) == 0
    assert again.changelog_offsets() == {"a": 0, "b": 0, "k": 1000}
