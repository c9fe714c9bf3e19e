"""Where standbys go: to clients whose tags differ from those that have the task, and else to the lightest clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from .api.cluster import AssignmentConfigs, ClientState
from .placement import Placement
from .priority import ConstrainedPrioritySet

_log = logging.getLogger(__name__)


def assign_standbys(
    placement: Placement, tasks: Sequence[int], clients: Sequence[ClientState], configs: AssignmentConfigs
) -> None:
    """Give each task the configured number of standbys, as far as there are clients for them.

    `tasks`: those with a changelog, in order; `clients`: by number. If tags are configured, a task's standbys go to
    clients that differ in them. Standbys for which no such client is left go to the lightest clients.
    """
    if configs.num_standby_replicas == 0:
        return
    missing = dict.fromkeys(tasks, configs.num_standby_replicas)
    if configs.rack_aware_assignment_tags:
        tags = Tags(clients, configs.rack_aware_assignment_tags)
        for task in tasks:
            if placement.owner[task] >= 0:
                missing[task] = _on_other_tags(placement, task, tags, missing[task])
    _on_lightest(placement, missing)


def tags_allow(clients: Sequence[ClientState], configs: AssignmentConfigs) -> Callable[[int, int], bool] | None:
    """Whether a standby may go from one client to another: the other client must have all tags of the first.

    None: always.
    """
    if not configs.rack_aware_assignment_tags:
        return None
    tags = [client.client_tags for client in clients]
    return lambda source, destination: all(tags[destination].get(key) == tag for key, tag in tags[source].items())


def tags_allow_swap(
    placement: Placement, clients: Sequence[ClientState], configs: AssignmentConfigs
) -> Callable[[int, int, int], bool] | None:
    """Whether a standby may go from one client to another: the task's clients must not differ in fewer tags afterwards.

    The answer is about the placement at that moment. None: always.
    """
    if not configs.rack_aware_assignment_tags:
        return None
    tags = [frozenset(client.client_tags.items()) for client in clients]

    def allowed(source: int, destination: int, task: int) -> bool:
        owner = placement.owner[task]
        having = {*placement.holders(task), *([] if owner < 0 else [owner])} - {source, destination}
        others = frozenset[tuple[str, str]]().union(*(tags[client] for client in having))
        return len(others | tags[destination]) >= len(others | tags[source])

    return allowed


def _on_lightest(placement: Placement, missing: Mapping[int, int]) -> None:
    queue = ConstrainedPrioritySet(placement.load)
    queue.offer_all(range(len(placement.clients)))
    for task, number in missing.items():
        for found in range(number):
            client = queue.poll(lambda client, task=task: not placement.has(client, task))  # type: ignore[misc]
            if client is None:
                _log.debug("no client for %d standbys of task %s", number - found, placement.tasks[task])
                break
            placement.assign_standby(client, task)
            queue.offer(client)


class Tags:
    """The values that clients have of the configured tags.

    `of[client]`: key -> value. `values[key]`: value -> the clients with it, as an array of booleans by client.
    """

    def __init__(self, clients: Sequence[ClientState], keys: Sequence[str]) -> None:
        self.of = [{key: client.client_tags[key] for key in keys if key in client.client_tags} for client in clients]
        self.values: dict[str, dict[str, npt.NDArray[np.bool_]]] = {}
        for client, tags in enumerate(self.of):
            for key, value in tags.items():
                there = self.values.setdefault(key, {}).setdefault(value, np.zeros(len(clients), np.bool_))
                there[client] = True


def _on_other_tags(placement: Placement, task: int, tags: Tags, number: int) -> int:
    """Place up to `number` standbys on clients whose tags are unused. Returns how many found no place.

    A key no longer counts for a task once as many clients have the task as the key has values. Otherwise no client
    could be found any more.
    """
    last, having = placement.owner[task], 1
    used: dict[str, dict[str, npt.NDArray[np.bool_]]] = {}
    while number:
        for key, value in tags.of[last].items():
            if len(tags.values[key]) <= having:
                used.pop(key, None)
            else:
                used.setdefault(key, {})[value] = tags.values[key][value]
        free = placement.lacking(task)
        for values in used.values():
            for there in values.values():
                free &= ~there
        client = placement.lightest(free)
        if client is None:
            break
        placement.assign_standby(client, task)
        last, having, number = client, having + 1, number - 1
    return number
