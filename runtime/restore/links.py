"""Links between clients, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ...errors import HeadwaterError
from ..task_id import StoreId
from ..tasks.plan import StoreInput
from .client_stores import handle
from .requests import (
    TABLE,
    UNKNOWN,
    StateLocation,
    StateRequest,
    StateResponse,
    StoreResponse,
    StoreTarget,
    TableResponse,
    TableTarget,
)

# Links to a client's stores: the protocol, the link for stores in this process, and what outlives dying workers.

MAX_KILLED = 3
"""How often in a row the worker of a request may be killed by somebody: by the system where memory is short."""


class StateJobError(HeadwaterError):
    """The job that worked on a client's stores failed: `client`, `cause`."""

    def __init__(self, application: str, client: str, cause: str) -> None:
        super().__init__(f"the stores of {application} on {client} could not be worked on: {cause}")
        self.application = application
        self.client = client
        self.cause = cause


class WorkerKilledError(StateJobError):
    """Somebody has killed the process that worked on a client's stores."""


class WorkerCrashedError(StateJobError):
    """The system has ended the process that worked on a client's stores for what it did: `crash`, `Bus error`."""

    def __init__(self, application: str, client: str, cause: str, crash: str) -> None:
        super().__init__(application, client, cause)
        self.crash = crash


class StateLink(Protocol):
    """Sends requests to where a client's stores are, and returns the answers."""

    @property
    def threads(self) -> int:
        """How many requests are processed at once."""
        ...

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """One answer for each request, in the same order. Threads may ask at once.

        Raises ClientLostError, StateJobError.
        """
        ...


class InDriver:
    """The link to a client in this process, where a damaged store may end all there is."""

    threads = 1

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """Process the requests one after another."""
        return [handle(request) for request in requests]


class IsolatingLink:
    """A link that goes on where a store kills its reader: LMDB's pages have no checksum, and a bad one is read anyway.

    Nobody knows then which of a job's stores it was. So each is asked for alone, and one at which the worker dies again
    is wiped, which needs no reading. Its neighbours stay: they may have no changelog to be restored from. Where
    somebody has killed the worker, no store is to blame.
    """

    def __init__(self, link: StateLink) -> None:
        self._link = link

    @property
    def threads(self) -> int:
        """See `StateLink.threads`."""
        return self._link.threads

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """One answer for each request, in the same order. Raises ClientLostError, StateJobError."""
        try:
            return self._asked(requests)
        except WorkerCrashedError:
            return [self._each(request) for request in requests]

    def _asked(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """The answers, also where the worker is killed now and then. Raises WorkerCrashedError for a crash."""
        for _ in range(MAX_KILLED):
            try:
                return self._link.send(requests)
            except WorkerKilledError:
                continue
        return self._link.send(requests)

    def _each(self, request: StateRequest) -> StateResponse:
        if request.tables:
            answers = [self._table(replace(request, tables=(table,)), table) for table in request.tables]
            failed = next((each for each in answers if each.failure is not None), answers[-1])
            return replace(failed, tables=tuple(table for each in answers for table in each.tables))
        if not request.stores:
            return self._asked([request])[0]
        found: list[StoreResponse] = []
        for target in request.stores:
            alone = self._alone(replace(request, stores=(target,)))
            if alone.failure is not None:
                return alone
            found += alone.stores
        return replace(alone, stores=tuple(found))

    def _table(self, request: StateRequest, target: TableTarget) -> StateResponse:
        """A global table has all of its rows from its topic: where it was wiped, it is loaded from nothing."""
        try:
            return self._asked([request])[0]
        except WorkerCrashedError as died:
            store = StoreTarget(TABLE, StoreInput(target.table.store.name, 0, 0, ()))
            (found,) = self._asked([replace(request, what="wipe", stores=(store,), tables=())])
            wiped = TableResponse(target.table.name, {}, damage=_damage(died))
            return replace(found, stores=(), tables=() if found.failure else (wiped,))

    def _alone(self, request: StateRequest) -> StateResponse:
        try:
            (found,) = self._asked([request])
        except WorkerCrashedError as died:
            (found,) = self._asked([replace(request, what="wipe")])
            found = replace(found, stores=tuple(replace(each, damage=_damage(died)) for each in found.stores))
        return found


def _damage(died: WorkerCrashedError) -> str:
    return f"its file ends every process that reads it ({died.crash})"


# How a client is taken hold of: its directory, and where its stores stand.


def claim_stores(link: StateLink, location: StateLocation) -> StateResponse:
    """Have a client take its directory, and report where its stores stand: of global tables only what was damaged.

    Stores that are as they were when they were closed need not be opened. Those that were not closed are read whole.
    Most of LMDB's damage shows as soon as a row is read, but not all of it, and an epoch should not come upon it.
    Raises ClientLostError, StateJobError.
    """
    (held,) = link.send([StateRequest("claim", location)])
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
    answers = link.send([StateRequest("open" if held.closed else "verify", here, share) for share in shares])
    if failed := next((each for each in answers if each.failure is not None), None):
        return failed
    opened = [store for each in answers for store in each.stores if store.partition != TABLE or store.damage]
    stores = tuple(sorted([*known, *opened], key=lambda each: (each.store, each.partition)))
    return replace(held, stores=stores, unopened=tuple(StoreId(each.store, each.partition) for each in known))
