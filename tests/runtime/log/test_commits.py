import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.runtime.log.commits import DirectoryCommitStore
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitExistsError, CommitGapError, UnsupportedFileSystemError


@pytest.fixture
def store(tmp_path):
    return DirectoryCommitStore("flights-delays", tmp_path / "commits")


def test_application_without_commits_has_none(store):
    assert (store.latest(), store.read(1), store.load_snapshot()) == (0, None, None)


def test_created_commit_is_read_back(store):
    store.create(1, b"one")
    store.create(2, b"two")
    assert (store.read(1), store.read(2), store.read(3), store.latest()) == (b"one", b"two", None, 2)


def test_commit_that_exists_is_refused_and_stays(store):
    store.create(1, b"one")
    with pytest.raises(CommitExistsError) as caught:
        store.create(1, b"other")
    assert (caught.value.application, caught.value.number) == ("flights-delays", 1)
    assert store.read(1) == b"one"


def test_commit_after_a_missing_one_is_refused(store):
    store.create(1, b"one")
    with pytest.raises(CommitGapError):
        store.create(3, b"three")
    assert store.latest() == 1


def test_many_creators_of_one_commit_leave_one_whole_winner(store):
    def create(writer):
        try:
            store.create(1, bytes([writer]) * 10_000)
        except CommitExistsError:
            return None
        return writer

    with ThreadPoolExecutor(8) as pool:
        winners = [writer for writer in pool.map(create, range(16)) if writer is not None]
    assert len(winners) == 1
    assert store.read(1) == bytes(winners) * 10_000


def test_created_commits_leave_no_other_files(store, tmp_path):
    store.create(1, b"one")
    with pytest.raises(CommitExistsError):
        store.create(1, b"one")
    assert os.listdir(tmp_path / "commits") == ["000000000001.json"]


def test_newest_snapshot_is_loaded_and_old_ones_go(store, tmp_path):
    store.create(1, b"one")
    for number in (100, 200, 300):
        store.save_snapshot(number, f"{number}".encode())
    assert store.load_snapshot() == (300, b"300")
    assert sorted(os.listdir(tmp_path / "commits"))[1:] == ["000000000200.snapshot", "000000000300.snapshot"]


@pytest.fixture
def no_links(monkeypatch):
    """A file system that cannot link, as FAT or some network ones."""

    def refuse(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("no_links")
def test_file_system_without_links_is_refused_before_and_at_a_commit(store, tmp_path):
    with pytest.raises(UnsupportedFileSystemError, match="hard links do not work"):
        EmbeddedLog(tmp_path / "log").check()
    with pytest.raises(UnsupportedFileSystemError):
        store.create(1, b"one")
    assert (store.latest(), os.listdir(tmp_path / "log"), os.listdir(tmp_path / "commits")) == (0, [], [])


def test_file_system_with_links_passes_the_check(tmp_path):
    EmbeddedLog(tmp_path / "log").check()
    assert os.listdir(tmp_path / "log") == ["log.json"]


def test_files_of_others_are_passed_over(store, tmp_path):
    store.create(1, b"one")
    store.save_snapshot(1, b"folded")
    for name in ("000000000001 (copy).json", "notes.json", "~.snapshot", "2.snapshot"):
        (tmp_path / "commits" / name).write_text("x")
    assert (store.latest(), store.load_snapshot()) == (1, (1, b"folded"))
