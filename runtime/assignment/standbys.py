"""Where standbys go: to the lightest clients, or to clients whose tags differ from those that have the task already."""

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
    """Give each task as many standbys as are asked for, where there are clients for them.

    `tasks`: those with a changelog, in order; `clients`: by number. With tags to tell clients apart by, a task's
    standbys go to clients that differ in them; what finds no place so goes to the lightest clients.
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
    """Whether a standby may go from one client to another: all tags of the source match. None: any may."""
    if not configs.rack_aware_assignment_tags:
        return None
    tags = [client.client_tags for client in clients]
    return lambda source, destination: all(tags[destination].get(key) == tag for key, tag in tags[source].items())


def tags_allow_swap(
    placement: Placement, clients: Sequence[ClientState], configs: AssignmentConfigs
) -> Callable[[int, int, int], bool] | None:
    """Whether a standby may go from one client to another: clients that have the task differ in no fewer tags then.

    As the placement is when asked. None: any may.
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
    """Which clients have which values of the tags that count.

    `of[client]`: key -> value; `values[key]`: value -> clients with it, as an array of truth values by client.
    """

    def __init__(self, clients: Sequence[ClientState], keys: Sequence[str]) -> None:
        self.of = [{key: client.client_tags[key] for key in keys if key in client.client_tags} for client in clients]
        self.values: dict[str, dict[str, npt.NDArray[np.bool_]]] = {}
        for client, tags in enumerate(self.of):
            for key, value in tags.items():
                there = self.values.setdefault(key, {}).setdefault(value, np.zeros(len(clients), np.bool_))
                there[client] = True


def _on_other_tags(placement: Placement, task: int, tags: Tags, number: int) -> int:
    """Place up to `number` standbys on clients whose tags are unused; how many found no place.

    A key no longer counts for a task once as many clients have the task as the key has values.
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
