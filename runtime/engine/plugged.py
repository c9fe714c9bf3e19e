"""Logs and store backends by the names that settings and topologies give."""

from __future__ import annotations

from ..log.embedded import EmbeddedLog
from ..log.log import Log
from ..state.lmdb import LmdbBackend
from ..state.memory import MemoryBackend
from ..state.store import StoreBackend
from ..topology import PluginRef, Store


def open_log(ref: PluginRef) -> Log:
    """The log that a profile names."""
    return EmbeddedLog(ref.options["path"])


def open_backend(store: Store) -> StoreBackend:
    """The backend that a store names."""
    return {"lmdb": LmdbBackend, "memory": MemoryBackend}[store.backend](**store.options)
