"""Where `balanced` puts standbys: apart from other copies, within limits, and where state already is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..api.cluster import AssignmentConfigs, ClientState
from .estimates import Estimates, Floats


def places_of(clients: Sequence[ClientState], configs: AssignmentConfigs) -> npt.NDArray[np.int64]:
    """The places that copies of a task should differ in, each value as a number: keys x clients.

    Places are the configured tags, or else the racks, if all clients have one. A client without a tag is a place of its
    own.
    """
    if configs.rack_aware_assignment_tags:
        rows = [[client.client_tags.get(key) for client in clients] for key in configs.rack_aware_assignment_tags]
    elif all(client.rack_id is not None for client in clients):
        rows = [[client.rack_id for client in clients]]
    else:
        rows = []
    numbered = [
        [row.index(value) if value is not None else -1 - column for column, value in enumerate(row)] for row in rows
    ]
    return np.array(numbered, np.int64).reshape(len(rows), len(clients))


def place_standbys(
    found: Estimates, owner: npt.NDArray[np.int64], places: npt.NDArray[np.int64], replicas: int, tolerance: float
) -> list[list[int]]:
    """The clients with a standby, by task: as many as configured, but no more than there are other clients.

    The first choice is a client apart from the other copies, then one below its share of all standbys, then the one
    with the least state to move. Existing copies are placed first, so that no new copy takes their room. Then large
    tasks are placed before small ones.
    """
    tasks = np.flatnonzero(found.replicated)
    number = min(replicas, len(found.threads) - 1)
    result: list[list[int]] = [[] for _ in owner]
    share = len(tasks) * number * found.threads / found.threads.sum()
    room = np.ceil(share * (1 + tolerance) - 1e-9)
    has = np.zeros(found.bytes_moved.shape, np.bool_)
    has[tasks, owner[tasks]] = True
    biggest = np.lexsort((-found.bytes_moved[tasks].max(axis=1, initial=0),))
    for only_ready in (True, False):
        for task in tasks[biggest]:
            while len(result[task]) < number:
                client = _best(found, places, has[task], task, room)
                if only_ready and not (found.caught_up[task, client] and room[client] > 0):
                    break
                has[task, client] = True
                room[client] -= 1
                result[task].append(client)
    return result


def _best(found: Estimates, places: npt.NDArray[np.int64], has: npt.NDArray[np.bool_], task: int, room: Floats) -> int:
    alike = np.zeros(len(has))
    for row in places:
        alike += np.isin(row, row[has])
    keys = (-room / found.threads, found.bytes_moved[task], room <= 0, alike, has)
    return int(np.lexsort(keys)[0])
