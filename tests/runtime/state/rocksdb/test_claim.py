"""Who may write a store of RocksDB, and how others ask for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.runtime.state.rocksdb.writer import WriteLock, is_locked, request_release


def test_store_has_one_holder_who_hears_that_it_is_asked_for(tmp_path: Path) -> None:
    lock = WriteLock.try_acquire(tmp_path / "store")
    assert lock is not None
    assert WriteLock.try_acquire(tmp_path / "store") is None
    assert is_locked(tmp_path / "store")
    assert request_release(tmp_path / "store")
    assert os.read(lock.request_pipe, 10) == b"?"
    lock.release()
    assert not is_locked(tmp_path / "store")


def test_holder_that_lets_go_while_it_is_asked_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = WriteLock.try_acquire(tmp_path / "store")
    assert lock is not None
    write = os.write

    def released_before(handle: int, data: bytes) -> int:
        lock.release()
        return write(handle, data)

    monkeypatch.setattr(os, "write", released_before)
    assert request_release(tmp_path / "store")
    assert not is_locked(tmp_path / "store")
