"""Asks for stores of an application to be computed again, and withdraws that. The next run finds it in the commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ...log.commit.records import StoreResetRecord
from ...log.errors import CommitExistsError
from ...log.log import Log
from ...topology import Topology
from ..committed import Committed
from .removal import CommittedMeanwhileError


def ask_for_reset(log: Log, topology: Topology, incarnation: str, stores: Collection[str]) -> None:
    """Have the next run compute these stores again, and all others that were asked for. A run may be under way.

    `incarnation`: of the application when this was planned. Raises CommittedMeanwhileError if it has begun again since
    from nothing, LogError.
    """
    _change(log, topology, incarnation, lambda asked: asked.union(stores))


def withdraw_reset(log: Log, topology: Topology, incarnation: str, stores: Collection[str]) -> None:
    """Have the next run leave these stores as they are. See `ask_for_reset`."""
    _change(log, topology, incarnation, lambda asked: asked.difference(stores))


def _change(log: Log, topology: Topology, incarnation: str, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
    state = Committed(log, topology).own  # with the names of now, which the log may not know yet
    while True:
        if not state.number or state.incarnation != incarnation:
            raise CommittedMeanwhileError(topology.application)
        wanted = tuple(sorted(change(frozenset(state.resets))))
        if wanted == state.resets:
            return
        at = time.time_ns() // 1_000_000
        try:
            state.commit(StoreResetRecord(state.generation, at, wanted, incarnation))
            return
        except CommitExistsError:
            state.refresh()
