"""Links from the driver to the stores of clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ...errors import HeadwaterError
from ..task_id import StoreId
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

# Links to a client's stores: the protocol, the link within this process, and a link that survives crashes of workers.

MAX_KILLED = 3
"""How often in a row a request is repeated when its worker is killed, for example by the system for lack of memory."""


class StateJobError(HeadwaterError):
    """The job that worked on a client's stores failed: `client`, `cause`."""

    def __init__(self, application: str, client: str, cause: str) -> None:
        super().__init__(f"the stores of {application} on {client} could not be worked on: {cause}")
        self.application = application
        self.client = client
        self.cause = cause


class WorkerKilledError(StateJobError):
    """The process that worked on a client's stores was killed from outside."""


class WorkerCrashedError(StateJobError):
    """The process that worked on a client's stores has crashed. `crash`: its signal, such as `Bus error`."""

    def __init__(self, application: str, client: str, cause: str, crash: str) -> None:
        super().__init__(application, client, cause)
        self.crash = crash


class StateLink(Protocol):
    """Sends requests to the client of the stores, and returns the responses."""

    @property
    def threads(self) -> int:
        """The number of requests processed at the same time."""
        ...

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """One response per request, in the same order. Thread-safe. Raises ClientLostError, StateJobError."""
        ...


class LocalLink:
    """The link to a client in this process. A damaged store may crash the whole process."""

    threads = 1

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """Process the requests one after another."""
        return [handle(request) for request in requests]


class IsolatingLink:
    """A link that isolates stores that crash their readers: LMDB's pages have no checksum, so damaged ones are read.

    After a crash it is unknown which store of a job was the cause. So the stores are processed one by one, and a store
    that crashes its worker again is wiped, which needs no reading. Other stores are kept, because they may have no
    changelog to be restored from. If a worker was killed from outside, no store is the cause.
    """

    def __init__(self, link: StateLink) -> None:
        self._link = link

    @property
    def threads(self) -> int:
        """See `StateLink.threads`."""
        return self._link.threads

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """One response per request, in the same order. Raises ClientLostError, StateJobError."""
        try:
            return self._send(requests)
        except WorkerCrashedError:
            return [self._one_by_one(request) for request in requests]

    def _send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """The responses, with repeats if the worker is killed. Raises WorkerCrashedError for a crash."""
        for _ in range(MAX_KILLED):
            try:
                return self._link.send(requests)
            except WorkerKilledError:
                continue
        return self._link.send(requests)

    def _one_by_one(self, request: StateRequest) -> StateResponse:
        if request.tables:
            responses = [self._single_table(replace(request, tables=(table,)), table) for table in request.tables]
            first = next((response for response in responses if response.failure is not None), responses[-1])
            return replace(first, tables=tuple(table for response in responses for table in response.tables))
        if not request.stores:
            return self._send([request])[0]
        stores: list[StoreResponse] = []
        for target in request.stores:
            response = self._single_store(replace(request, stores=(target,)))
            if response.failure is not None:
                return response
            stores += response.stores
        return replace(response, stores=tuple(stores))

    def _single_table(self, request: StateRequest, target: TableTarget) -> StateResponse:
        """The response for one global table. If it crashes the worker, it is wiped and loaded from its topic again."""
        try:
            return self._send([request])[0]
        except WorkerCrashedError as error:
            store = StoreTarget.at(StoreId(target.table.store.name, TABLE), 0)
            (response,) = self._send([replace(request, what="wipe", stores=(store,), tables=())])
            wiped = TableResponse(target.table.name, {}, damage=_damage(error))
            return replace(response, stores=(), tables=() if response.failure else (wiped,))

    def _single_store(self, request: StateRequest) -> StateResponse:
        try:
            (response,) = self._send([request])
        except WorkerCrashedError as error:
            (response,) = self._send([replace(request, what="wipe")])
            wiped = tuple(replace(store, damage=_damage(error)) for store in response.stores)
            response = replace(response, stores=wiped)
        return response


def _damage(error: WorkerCrashedError) -> str:
    return f"its file crashes every process that reads it ({error.crash})"


# Claims the state directory of a client, and gets the positions of its stores.


def claim_stores(link: StateLink, location: StateLocation) -> StateResponse:
    """Let a client claim its directory, and report the positions of its stores. Of global tables only damaged ones.

    Stores that have not changed since their close are not opened. Stores that were not closed are read whole: a first
    row shows most of LMDB's damage but not all, and an epoch should not run into it.
    Raises ClientLostError, StateJobError.
    """
    (claimed,) = link.send([StateRequest("claim", location)])
    if claimed.failure is not None:
        return claimed
    location = replace(location, folder=claimed.folder, process_id=claimed.process_id)
    closed = [store for store in claimed.stores if store.position != UNKNOWN]
    targets = [
        StoreTarget.at(store.store, 0)
        for store in claimed.stores
        if store.position == UNKNOWN and not (claimed.closed and store.store.partition == TABLE)
    ]
    shares = [share for thread in range(link.threads) if (share := tuple(targets[thread :: link.threads]))]
    responses = link.send([StateRequest("open" if claimed.closed else "verify", location, share) for share in shares])
    if failed := next((response for response in responses if response.failure is not None), None):
        return failed
    stores = [store for response in responses for store in response.stores]
    opened = [store for store in stores if store.store.partition != TABLE or store.damage]
    sorted_stores = tuple(sorted([*closed, *opened], key=lambda store: store.store))
    return replace(claimed, stores=sorted_stores, unopened=tuple(store.store for store in closed))
