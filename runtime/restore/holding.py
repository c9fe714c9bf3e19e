"""How a client is taken hold of: its directory, and where its stores stand."""

from __future__ import annotations

from dataclasses import replace

from ..task_id import StoreId
from ..tasks.plan import StoreInput
from .links import StateLink
from .requests import TABLE, UNKNOWN, StateAnswer, StateLocation, StateRequest, StoreTarget


def hold(link: StateLink, location: StateLocation) -> StateAnswer:
    """Have a client take its directory, and report where its stores stand: of global tables only what was damaged.

    Stores that are as they were when they were closed need not be opened. Those that were not closed are read whole.
    Most of LMDB's damage shows as soon as a row is read, but not all of it, and an epoch should not come upon it.
    Raises ClientLostError, StateJobError.
    """
    (held,) = link.ask([StateRequest("hold", location)])
    if held.failure is not None:
        return held
    here = replace(location, folder=held.folder, process_id=held.process_id)
    known = [each for each in held.stores if each.position != UNKNOWN]
    targets = [
        StoreTarget(each.partition, StoreInput(each.store, 0, 0, ()))
        for each in held.stores
        if each.position == UNKNOWN and not (held.closed and each.partition == TABLE)
    ]
    shares = [share for thread in range(link.threads) if (share := tuple(targets[thread :: link.threads]))]
    answers = link.ask([StateRequest("open" if held.closed else "look", here, share) for share in shares])
    if failed := next((each for each in answers if each.failure is not None), None):
        return failed
    opened = [store for each in answers for store in each.stores if store.partition != TABLE or store.damage]
    stores = tuple(sorted([*known, *opened], key=lambda each: (each.store, each.partition)))
    return replace(held, stores=stores, unopened=tuple(StoreId(each.store, each.partition) for each in known))
