"""The lags of all tasks on all clients as a table, which `high_availability` reads many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter, is_

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .api.cluster import LATEST_OFFSET, UNBOUNDED_LAG, ClientState, ProcessId

_KEY = attrgetter("subtopology", "partition")


class LagTable:
    """Lags of tasks on clients, both by number.

    `lag[task, client]`; `caught_up[task, client]`: the client runs the task or its lag is acceptable. An unknown lag
    sorts before all others and yet is not caught up, as in Kafka Streams.
    """

    def __init__(
        self,
        tasks: Sequence[TaskId],
        needed: Sequence[int],
        clients: Sequence[ClientState],
        acceptable_recovery_lag: int,
    ) -> None:
        """`needed`: the numbers of the tasks that are asked for. The rows of other tasks have no meaning.

        Raises UnknownLagError if a needed lag is missing, for the first one by task and then by client.
        """
        self.lag: npt.NDArray[np.int64] = np.ascontiguousarray(_by_client(tasks, needed, clients).T)
        self.caught_up: npt.NDArray[np.bool_] = (self.lag == LATEST_OFFSET) | (
            np.full(self.lag.shape, True)
            if acceptable_recovery_lag >= UNBOUNDED_LAG
            else (self.lag >= 0) & (self.lag <= acceptable_recovery_lag)
        )
        self.caught_up_clients: list[int] = self.caught_up.sum(axis=1).tolist()
        self._least: npt.NDArray[np.int64] = self.lag.min(axis=1)

    def should_move(self, task: int, client: int) -> bool:
        """Whether the client has not caught up on the task and another client lags less."""
        return not self.caught_up[task, client] and bool(self._least[task] < self.lag[task, client])

    def most_caught_up(self, task: int) -> int:
        """The client with the smallest lag; the first of equals."""
        return int(self.lag[task].argmin())

    def most_caught_up_before(self, task: int, client: int, among: npt.NDArray[np.bool_]) -> int | None:
        """Of the clients `among`, the one with the smallest lag that precedes `client`, by lag and then by number."""
        lag = self.lag[task]
        before = lag < lag[client]
        before[:client] |= lag[:client] == lag[client]
        candidates = np.flatnonzero(before & among)
        return int(candidates[lag[candidates].argmin()]) if len(candidates) else None


def _by_client(tasks: Sequence[TaskId], needed: Sequence[int], clients: Sequence[ClientState]) -> npt.NDArray[np.int64]:
    """Lags by client and task.

    With thousands of tasks the mappings mostly have the same key objects in the same order. Comparing the keys by
    identity is far cheaper than looking each of them up.
    """
    table = np.zeros((len(clients), len(tasks)), np.int64)
    if not needed:
        return table
    numbers = {_KEY(task): number for number, task in enumerate(tasks)}
    keys: list[TaskId] | None = None
    places = known = np.empty(0, np.int64)
    for row, client in zip(table, clients, strict=True):
        lags: Mapping[TaskId, int] = client.lags or {}
        own = list(lags)
        if keys is None or len(own) != len(keys) or not all(map(is_, own, keys)):
            keys = own
            places = np.fromiter((numbers.get(key, -1) for key in map(_KEY, own)), np.int64, len(own))
            known = np.flatnonzero(places >= 0)
            places = places[known]
            there = np.zeros(len(tasks), np.bool_)
            there[places] = True
            if not there[needed].all():
                _raise_missing(tasks, needed, clients)
        row[places] = np.fromiter(lags.values(), np.int64, len(own))[known]
    return table


def _raise_missing(tasks: Sequence[TaskId], needed: Sequence[int], clients: Sequence[ClientState]) -> None:
    for task in needed:
        for client in clients:
            client.lag_for(tasks[task])


def clients_in_order(clients: Mapping[ProcessId, ClientState]) -> list[ClientState]:
    """Clients by process id."""
    return [clients[client] for client in sorted(clients)]
