"""Makes what a processor sees of a store, by the store's type."""

from __future__ import annotations

from ....topology import Store
from ...task_epoch import EpochStore
from ..moment import Moment
from .key_value import KeyValueStore
from .session import SessionStore
from .window import WindowStore

AnyStore = KeyValueStore | WindowStore | SessionStore


def store_of(store: Store, opened: EpochStore, moment: Moment) -> AnyStore:
    """The store during an epoch. `moment`: what is worked on, which is moved on from outside."""
    match store.type:
        case "window":
            return WindowStore(store, opened, moment)
        case "session":
            return SessionStore(store, opened, moment)
        case _:
            return KeyValueStore(store, opened, moment)
