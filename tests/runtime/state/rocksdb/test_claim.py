"""Who may write a store of RocksDB, and how others ask for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.runtime.state.rocksdb.writer import Claim, ask, is_claimed


def test_store_has_one_holder_who_hears_that_it_is_asked_for(tmp_path: Path) -> None:
    claim = Claim.attempt(tmp_path / "store")
    assert claim is not None
    assert Claim.attempt(tmp_path / "store") is None
    assert is_claimed(tmp_path / "store")
    assert ask(tmp_path / "store")
    assert os.read(claim.asked, 10) == b"?"
    claim.release()
    assert not is_claimed(tmp_path / "store")


def test_holder_that_lets_go_while_it_is_asked_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = Claim.attempt(tmp_path / "store")
    assert claim is not None
    write = os.write

    def released_before(handle: int, data: bytes) -> int:
        claim.release()
        return write(handle, data)

    monkeypatch.setattr(os, "write", released_before)
    assert ask(tmp_path / "store")
    assert not is_claimed(tmp_path / "store")
