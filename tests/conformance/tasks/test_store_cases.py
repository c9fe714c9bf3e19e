"""What Kafka Streams' own tests ask of changelogs, state and files, numbered as the table in README.md has them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from headwater.runtime.restore.store_changelog_reader import ChangelogState, ReaderMode
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.offset_checkpoint import CheckpointError, OffsetCheckpoint
from headwater.runtime.task_id import UNKNOWN_OFFSET, StoreId
from headwater.runtime.tasks.errors import LockError
from headwater.runtime.tasks.state import State
from headwater.tests.runtime.tasks.client_tasks import T00, T01, T02, ClientTasks, Heard

S0, S1 = StoreId("s", 0), StoreId("s", 1)


@pytest.fixture
def client(tmp_path: Path) -> ClientTasks:
    return ClientTasks(tmp_path)


def listened(client: ClientTasks) -> Heard:
    heard = Heard()
    client.reader._listener = heard
    return heard


def position(client: ClientTasks, partition: int) -> int:
    return LmdbStore(client.directory.store_path(StoreId("s", partition))).position


def test_23_store_that_stands_at_the_end_is_started_and_ended_without_a_batch(client: ClientTasks) -> None:
    client.append(0, 10)
    client.run(T00)
    client.manager.shutdown(clean=True)
    heard = listened(client)
    client.run(T00)
    assert heard.words == ["active s/0 started at 10 of 10", "active s/0 ended after 0"]
    assert client.reader.state(S0) is ChangelogState.COMPLETED


def test_24_active_store_is_completed_at_the_committed_end_and_a_standby_never_is(client: ClientTasks) -> None:
    client.append(0, 10)
    client.append(1, 10)
    client.run(T00, standby=[T01])
    client.append(0, 2)  # committed after the active task was restored: that is for its epochs to apply
    client.append(1, 2)
    for _ in range(3):
        client.manager.try_to_complete_restoration()
    assert (position(client, 0), position(client, 1)) == (10, 12)
    assert client.reader.state(S0) is ChangelogState.COMPLETED
    assert client.reader.state(S1) is ChangelogState.RESTORING


def test_27_mode_follows_from_what_is_registered(client: ClientTasks) -> None:
    client.append(0, 5)
    client.append(1, 5)
    client.run(standby=[T01])
    assert client.reader.mode is ReaderMode.STANDBY_UPDATING
    client.manager.handle_assignment([T00], [T01])
    client.append(1, 1)
    client.manager.try_to_complete_restoration()
    assert client.reader.mode is ReaderMode.ACTIVE_RESTORING
    assert client.reader.offsets(T01) == {"s": 5}, "a standby task waits for the active ones"
    for _ in range(4):
        client.manager.try_to_complete_restoration()
    assert client.reader.offsets(T01) == {"s": 6}
    client.manager.handle_assignment([], [])
    assert (client.reader.state(S0), client.reader.state(S1)) == (None, None)


def test_28_positions_are_those_of_the_stores_and_other_folders_are_passed_over(
    client: ClientTasks, tmp_path: Path
) -> None:
    client.append(0, 11)
    client.run(T00, T01)
    client.manager.shutdown(clean=True)
    LmdbStore(client.directory.store_path(StoreId("other", 0))).apply([], 0, 999)
    again = ClientTasks(tmp_path)
    assert again.manager.offset_sums() == {T00: 11, T01: 0}


def test_29_store_that_is_missing_is_restored_and_its_neighbours_stay(client: ClientTasks, tmp_path: Path) -> None:
    client.append(0, 4)
    client.append(1, 5)
    client.run(T00, T01)
    client.manager.shutdown(clean=True)
    shutil.rmtree(client.directory.store_path(S0))
    again = ClientTasks(tmp_path)
    heard = listened(again)
    again.run(T00, T01)
    assert [word for word in heard.words if "started" in word] == [
        "active s/0 started at 0 of 4",
        "active s/1 started at 5 of 5",
    ]
    assert (position(again, 0), position(again, 1)) == (4, 5)


def test_30_store_stands_where_its_last_transaction_says_after_any_end(client: ClientTasks, tmp_path: Path) -> None:
    client.append(0, 4)
    client.run(T00)
    client.process(T00)
    client.manager.shutdown(clean=False)
    again = ClientTasks(tmp_path)
    assert again.manager.offset_sums()[T00] == 4
    again.run(T00)
    assert again.state(T00) is State.RUNNING


def in_rocksdb(tmp_path: Path) -> ClientTasks:
    """A client whose stores have checkpoint files. What was applied is on the disk when a store is closed."""
    return ClientTasks(tmp_path, backend="rocksdb")


def checkpoint(client: ClientTasks, partition: int) -> OffsetCheckpoint:
    return OffsetCheckpoint(client.directory.store_path(StoreId("s", partition)) / ".checkpoint")


def test_28_positions_are_loaded_from_checkpoint_files_which_the_next_change_deletes(tmp_path: Path) -> None:
    client = in_rocksdb(tmp_path)
    client.append(0, 11)
    client.run(T00, T01)
    client.manager.shutdown(clean=True)
    assert checkpoint(client, 0).read()["s", 0] == 10
    again = in_rocksdb(tmp_path)
    assert again.manager.offset_sums() == {T00: 11, T01: 0}
    again.append(0, 1)
    again.run(T00)
    assert checkpoint(again, 0).read() == {}


def test_29_store_with_rows_and_without_a_checkpoint_file_is_wiped_alone_and_restored(tmp_path: Path) -> None:
    client = in_rocksdb(tmp_path)
    client.append(0, 4)
    client.append(1, 5)
    client.run(T00, T01)
    client.manager.shutdown(clean=True)
    checkpoint(client, 0).delete()
    again = in_rocksdb(tmp_path)
    heard = listened(again)
    again.run(T00, T01)
    assert [word for word in heard.words if "started" in word] == [
        "active s/0 started at 0 of 4",
        "active s/1 started at 5 of 5",
    ]


def test_30_checkpoint_file_has_the_position_that_was_applied_and_no_other_store(tmp_path: Path) -> None:
    client = in_rocksdb(tmp_path)
    client.append(0, 124)
    client.run(T00)
    client.manager.shutdown(clean=True)
    assert checkpoint(client, 0).read() == {("s", 0): 123, ("rocksdb-sequence", 0): 124}


def test_31_file_of_nothing_is_removed_and_negative_offsets_are_refused_and_passed_over(tmp_path: Path) -> None:
    file = OffsetCheckpoint(tmp_path / ".checkpoint")
    file.write({("s", 0): UNKNOWN_OFFSET})
    assert file.read() == {("s", 0): UNKNOWN_OFFSET}
    with pytest.raises(CheckpointError):
        file.write({("s", 0): -1})
    file.path.write_text("0\n2\ns 0 -1\ns 1 7\n")
    assert file.read() == {("s", 1): 7}
    file.write({})
    assert not file.path.exists()


def test_32_directory_without_stores_is_empty_though_it_has_files_of_its_own(client: ClientTasks) -> None:
    assert sorted(path.name for path in client.directory.path.iterdir()) == [".process.json"]
    assert client.directory.stores() == []


def test_32_second_lock_is_refused(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "client-1", "p-t")
    with directory.lock(), pytest.raises(LockError, match="is in use by"), directory.lock():
        pass
    with directory.lock():
        assert directory.stores() == []


def test_32_cleaner_leaves_what_is_owned_and_what_was_touched_lately(client: ClientTasks) -> None:
    client.run(T00, T01, T02)
    client.manager.shutdown(clean=True)
    last = StoreId("s", 2)
    for store in (S0, S1):
        for path in (client.directory.store_path(store), *client.directory.store_path(store).iterdir()):
            os.utime(path, (0, 0))
    assert client.directory.clean([S1, last], delay_s=600) == [S1]
    assert client.directory.stores() == [S0, last]
