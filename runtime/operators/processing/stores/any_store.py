"""Makes what a processor sees of a store, by the store's type."""

from __future__ import annotations

from ....topology import Store
from ...task_epoch import EpochStore
from ..moment import Moment
from .key_value import KeyValueStore
from .session import SessionStore
from .window import WindowStore

AnyStore = KeyValueStore | WindowStore | SessionStore


def store_of(store: Store, opened: EpochStore, moment: Moment, clock: int) -> AnyStore:
    """The store during an epoch. `moment`: what is worked on, which is moved on from outside. `clock`: of a window or
    session store when the epoch begins.
    """
    match store.type:
        case "window":
            return WindowStore(store, opened, moment, clock)
        case "session":
            return SessionStore(store, opened, moment, clock)
        case _:
            return KeyValueStore(store, opened, moment)
