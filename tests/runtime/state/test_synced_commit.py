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
from headwater.runtime.state.offset_checkpoint import (
    belongs_to_log,
    commit_mark_path,
    read_commit_mark,
    write_commit_mark,
)
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
    assert belongs_to_log(log, store)  # one of version 0.1
    write_commit_mark(store, SECOND)
    write_commit_mark(store, FIRST)  # of a driver that was left over
    write_commit_mark(store, None)
    assert (read_commit_mark(store), belongs_to_log(log, store)) == (SECOND, True)
    inode = commit_mark_path(store).stat().st_ino
    write_commit_mark(store, CommitMark("p-t", 10, 7))  # longer, and written in the place of the one before
    assert (read_commit_mark(store), commit_mark_path(store).stat().st_ino) == (CommitMark("p-t", 10, 7), inode)
    for other in (CommitMark("p-t", 2, 7), CommitMark("p-t", 3, SECOND.checksum), CommitMark("p-other", 2, 1)):
        commit_mark_path(store).unlink()
        write_commit_mark(store, other)
        assert not belongs_to_log(log, store)


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
    commit_mark_path(store).write_text(text)
    assert not belongs_to_log(log, store)
    assert list(directory.remove_foreign(log)) == ["s/0"]
    assert (directory.stores(), read_commit_mark(store)) == ([], None)


def test_note_that_a_dead_process_had_only_begun_is_removed_when_the_directory_is_taken(
    directory: StateDirectory,
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    note = commit_mark_path(directory.store_path(StoreId("s", 0)))
    write_commit_mark(directory.store_path(StoreId("s", 0)), FIRST)
    begun, other = (note.with_name(f"{note.name}.{pid}") for pid in (ended.pid, os.getpid()))
    begun.touch()
    other.touch()
    with directory.lock():
        assert (begun.exists(), other.exists(), note.exists()) == (False, True, True)


def test_note_of_an_earlier_version_counts_and_is_replaced(log: EmbeddedLog, directory: StateDirectory) -> None:
    store = directory.store_path(StoreId("s", 0))
    commit_mark_path(store).write_text(json.dumps(asdict(FIRST)))
    assert belongs_to_log(log, store)
    write_commit_mark(store, SECOND)
    assert (read_commit_mark(store), belongs_to_log(log, store)) == (SECOND, True)


def test_wiped_store_leaves_no_note_and_the_next_one_is_taken(log: EmbeddedLog, directory: StateDirectory) -> None:
    store = directory.store_path(StoreId("s", 0))
    write_commit_mark(store, CommitMark("p-t", 9, 9))
    directory.remove(StoreId("s", 0))
    assert list(store.parent.iterdir()) == []
    write_commit_mark(store, FIRST)
    assert directory.remove_foreign(log) == {}
