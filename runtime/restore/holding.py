"""How a client is taken hold of: its directory, and where its stores stand."""

from __future__ import annotations

from dataclasses import replace

from ..tasks.plan import StoreInput
from .links import StateLink
from .requests import TABLE, StateAnswer, StateLocation, StateRequest, StoreTarget


def hold(link: StateLink, location: StateLocation) -> StateAnswer:
    """Have a client take its directory, and report where its stores stand: without those of global tables.

    Stores that were not closed are read whole. Most of LMDB's damage shows as soon as a row is read, but not all of it,
    and an epoch should not come upon it. Raises ClientLostError, StateJobError.
    """
    (held,) = link.ask([StateRequest("hold", location)])
    if held.failure is not None:
        return held
    here = replace(location, folder=held.folder, process_id=held.process_id)
    targets = [
        StoreTarget(each.partition, StoreInput(each.store, 0, 0, ()))
        for each in held.stores
        if not (held.closed and each.partition == TABLE)
    ]
    shares = [share for thread in range(link.threads) if (share := tuple(targets[thread :: link.threads]))]
    answers = link.ask([StateRequest("open" if held.closed else "look", here, share) for share in shares])
    if failed := next((each for each in answers if each.failure is not None), None):
        return failed
    stores = [store for each in answers for store in each.stores if store.partition != TABLE]
    return replace(held, stores=tuple(sorted(stores, key=lambda each: (each.store, each.partition))))
