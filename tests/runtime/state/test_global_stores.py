from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import GlobalTable, Store, Topic
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.state.lmdb.store import LmdbBackend, LmdbStore
from headwater.runtime.state.processor_state_manager import POSITIONS, catch_up_global, positions_of
from headwater.runtime.state.rocksdb.store import RocksdbBackend
from headwater.runtime.state.store import StateStore, StoreBackend
from headwater.runtime.tasks.errors import TaskCorruptedError, TaskMigratedError
from headwater.runtime.tasks.plan import LaneInput, TopicInput

PLACES = Topic("places", 2, "city string", "name string")
TABLE = GlobalTable("places", PLACES, Store("places", 2, PLACES.key, PLACES.value))
APPENDS, THREADS = 60, 4


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    log = EmbeddedLog(tmp_path / "log")
    for number in range(APPENDS):
        cities = ["Oslo", "Rome", f"new {number}"]
        append(log, "p-seed", PLACES, pa.table({"city": cities, "name": [f"name {number}"] * 3}))
    return log


def pinned(log: EmbeddedLog) -> tuple[TopicInput, ...]:
    """All that is committed to each partition."""
    state = LogState.load(log.commits("p-seed"))
    return tuple(
        TopicInput(
            PLACES.name,
            (LaneInput(0, 0, state.lane_ranges(PLACES.name, partition, 0)),),
        )
        for partition in range(2)
    )


def rows(store: StateStore) -> dict[bytes, bytes]:
    return {key: value for key, value in store.range(None, None) if key != POSITIONS}


def advance(backend: StoreBackend, root: Path, start: Barrier, directory: Path) -> None:
    log = EmbeddedLog(root)
    store = backend.open(directory)
    start.wait()
    catch_up_global(store, TABLE, pinned(log), log)
    assert len(rows(store)) == APPENDS + 2
    store.close()


@pytest.fixture
def threads() -> Iterator[list[multiprocessing.Process]]:
    started: list[multiprocessing.Process] = []
    yield started
    for thread in started:
        thread.kill()


@pytest.mark.parametrize("backend", [LmdbBackend(), RocksdbBackend()], ids=["lmdb", "rocksdb"])
def test_threads_that_load_a_table_at_once_apply_each_record_once(
    log: EmbeddedLog, tmp_path: Path, threads: list[multiprocessing.Process], backend: StoreBackend
) -> None:
    alone = backend.open(tmp_path / "alone")
    catch_up_global(alone, TABLE, pinned(log), log)
    context = multiprocessing.get_context("fork")
    start = context.Barrier(THREADS)

    for _ in range(THREADS):
        threads.append(context.Process(target=advance, args=(backend, log.root, start, tmp_path / "shared")))
        threads[-1].start()
    for thread in threads:
        thread.join()

    assert [thread.exitcode for thread in threads] == [0] * THREADS
    shared = backend.open(tmp_path / "shared")
    assert shared.position == alone.position == 3 * APPENDS
    assert positions_of(shared) == positions_of(alone)
    assert rows(shared) == rows(alone)


def test_store_whose_position_is_not_what_it_holds_is_refused(log: EmbeddedLog, tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "store")
    store.apply([], 0, 7)

    with pytest.raises(TaskMigratedError):
        catch_up_global(store, TABLE, pinned(log), log)


def test_store_that_lost_what_the_plan_leaves_out_is_refused(log: EmbeddedLog, tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "store")
    rest = tuple(
        replace(topic, lanes=tuple(replace(lane, position=lane.end, ranges=()) for lane in topic.lanes))
        for topic in pinned(log)
    )

    with pytest.raises(TaskCorruptedError, match="places has lost records"):
        catch_up_global(store, TABLE, rest, log)
    catch_up_global(store, TABLE, pinned(log), log)
    catch_up_global(store, TABLE, rest, log)
    assert store.position == 3 * APPENDS
