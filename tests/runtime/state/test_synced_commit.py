"""The note beside a store of the commit that it was last brought forward with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from zlib import crc32

import pytest

from headwater.runtime.log.commit.records import CommitMark
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.offset_checkpoint import is_of, note_of, note_sync, synced_with
from headwater.runtime.task_id import StoreId

FIRST, SECOND = CommitMark("p-t", 1, crc32(b"one")), CommitMark("p-t", 2, crc32(b"two"))


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    log = EmbeddedLog(tmp_path / "log")
    log.commits("p-t").create(1, b"one")
    log.commits("p-t").create(2, b"two")
    return log


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    """With one store."""
    directory = StateDirectory(tmp_path / "state", "client-1", "p-t")
    LmdbStore(directory.store_path(StoreId("s", 0))).apply([([b"a"], [b"1"])], 0, 1)
    return directory


def test_store_is_of_the_log_that_has_its_last_commit_and_no_other(log: EmbeddedLog, directory: StateDirectory) -> None:
    store = directory.store_path(StoreId("s", 0))
    assert is_of(log, store)  # one of version 0.1
    note_sync(store, SECOND)
    note_sync(store, FIRST)  # of a driver that was left over
    note_sync(store, None)
    assert (synced_with(store), is_of(log, store)) == (SECOND, True)
    inode = note_of(store).stat().st_ino
    note_sync(store, CommitMark("p-t", 10, 7))  # longer, and written in the place of the one before
    assert (synced_with(store), note_of(store).stat().st_ino) == (CommitMark("p-t", 10, 7), inode)
    for other in (CommitMark("p-t", 2, 7), CommitMark("p-t", 3, SECOND.checksum), CommitMark("p-other", 2, 1)):
        note_of(store).unlink()
        note_sync(store, other)
        assert not is_of(log, store)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"application": "p-t", "number": null, "checksum": 1}',
        f'{{"application": "p-t", "number": 2, "checksum": {SECOND.checksum}, "crc32": 1}}',  # half of two notes
    ],
)
def test_store_whose_note_cannot_be_read_is_of_no_log(log: EmbeddedLog, directory: StateDirectory, text: str) -> None:
    store = directory.store_path(StoreId("s", 0))
    note_of(store).write_text(text)
    assert not is_of(log, store)
    assert list(directory.remove_foreign(log)) == ["s/0"]
    assert (directory.stores(), synced_with(store)) == ([], None)


def test_note_that_a_dead_process_had_only_begun_is_removed_when_the_directory_is_taken(
    directory: StateDirectory,
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    note = note_of(directory.store_path(StoreId("s", 0)))
    note_sync(directory.store_path(StoreId("s", 0)), FIRST)
    begun, other = (note.with_name(f"{note.name}.{pid}") for pid in (ended.pid, os.getpid()))
    begun.touch()
    other.touch()
    with directory.locked():
        assert (begun.exists(), other.exists(), note.exists()) == (False, True, True)


def test_note_of_an_earlier_version_counts_and_is_replaced(log: EmbeddedLog, directory: StateDirectory) -> None:
    store = directory.store_path(StoreId("s", 0))
    note_of(store).write_text(json.dumps(asdict(FIRST)))
    assert is_of(log, store)
    note_sync(store, SECOND)
    assert (synced_with(store), is_of(log, store)) == (SECOND, True)


def test_wiped_store_leaves_no_note_and_the_next_one_is_taken(log: EmbeddedLog, directory: StateDirectory) -> None:
    store = directory.store_path(StoreId("s", 0))
    note_sync(store, CommitMark("p-t", 9, 9))
    directory.remove(StoreId("s", 0))
    assert list(store.parent.iterdir()) == []
    note_sync(store, FIRST)
    assert directory.remove_foreign(log) == {}
