"""Every store backend, so that one contract is held by all."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.runtime.state.memory import MemoryBackend
from headwater.runtime.state.rocksdb import databases
from headwater.runtime.state.rocksdb.store import RocksdbBackend
from headwater.runtime.state.store import StateStore, StoreBackend

BACKENDS: dict[str, Callable[[Path], StoreBackend]] = {
    "lmdb": lambda root: LmdbBackend(),
    "lmdb-small-map": lambda root: LmdbBackend(map_size=1 << 16),
    "memory": lambda root: MemoryBackend(str(root / "shm")),
    "rocksdb": lambda root: RocksdbBackend(),
}


@pytest.fixture(autouse=True)
def never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow a test is: no store is brought to the disk because nobody has used it for a moment."""
    monkeypatch.setattr(databases, "IDLE_S", math.inf)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> StoreBackend:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def store(backend: StoreBackend, tmp_path: Path) -> StateStore:
    return backend.open(tmp_path / "state" / "store" / "0")


@pytest.fixture
def transactional(backend: StoreBackend) -> bool:
    """Whether what was applied is there after any end of a process; otherwise the store is empty after an unclean one.

    A store of such a backend has a method `checkpoint`, and nothing is on the disk before it.
    """
    return not isinstance(backend, RocksdbBackend)
