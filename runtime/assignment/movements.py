"""Turns the wanted placement into one that can run now: tasks stay on clients that are further on.

Where the wanted client is not caught up and another is further on, the task goes to that one, and the wanted client
warms up a copy if the budget allows, so that a later assignment can hand it over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .lags import LagTable
from .placement import Placement


@dataclass
class Warmups:
    """The copies that are to catch up. `budget`: how many more there may be."""

    budget: int
    tasks: set[tuple[int, int]] = field(default_factory=set)

    def take(self) -> bool:
        """Use one of the budget, if there is any."""
        self.budget -= 1
        return self.budget >= 0


def move_actives(placement: Placement, lags: LagTable, warmups: Warmups) -> int:
    """Give active tasks to clients that are further on; how many.

    Those with the fewest clients to go to come first. In order of preference: the lightest client that is caught up
    and has a standby, which costs nothing; the lightest that is caught up; the most caught up.
    """
    movements = sorted(
        (lags.caught_up_clients[task], task)
        for wanted, tasks in enumerate(placement.active)
        for task in tasks
        if lags.should_move(task, wanted)
    )
    for _, task in movements:
        standbys = [client for client in placement.holders(task) if lags.caught_up[task, client]]
        if standbys:
            placement.swap(task, min(standbys, key=lambda client: (placement.load[client], client)))
            continue
        client = placement.lightest(lags.caught_up[task])
        if client is None:
            client = lags.most_caught_up(task)
        if client in placement.holders(task):
            placement.swap(task, client)
        else:
            _move_active(placement, task, client, warmups)
    return len(movements)


def move_standbys(placement: Placement, lags: LagTable, warmups: Warmups) -> int:
    """Put standbys on clients that are further on, and keep the wanted ones as far as the budget goes; how many.

    Copies that already warm up stay. Equal movements keep the order of clients.
    """
    movements = sorted(
        (lags.caught_up_clients[task], task, wanted)
        for wanted, tasks in enumerate(placement.standby)
        for task in tasks
        if (wanted, task) not in warmups.tasks and lags.should_move(task, wanted)
    )
    moved = 0
    for _, task, wanted in movements:
        free = placement.lacking(task)
        client = placement.lightest(free & lags.caught_up[task])
        if client is None:
            client = lags.most_caught_up_before(task, wanted, free)
        if client is None:
            continue
        placement.assign_standby(client, task)
        if not warmups.take():
            placement.unassign_standby(wanted, task)
        moved += 1
    return moved


def _move_active(placement: Placement, task: int, client: int, warmups: Warmups) -> None:
    wanted = placement.owner[task]
    placement.move_active(wanted, client, task)
    if warmups.take():
        placement.assign_standby(wanted, task)
        warmups.tasks.add((wanted, task))
