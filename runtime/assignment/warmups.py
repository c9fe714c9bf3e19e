"""Turns the intended placement into one that can run now (KIP-441).

If the intended client of a task has not caught up and another client is further on, the task goes to the other client.
The intended client warms up a copy, if the number of warm-ups allows it, so that a later assignment can move the task.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .lags import LagTable
from .placement import Placement


@dataclass
class Warmups:
    """The copies that warm up. `budget`: how many more there may be."""

    budget: int
    tasks: set[tuple[int, int]] = field(default_factory=set)

    def take(self) -> bool:
        """Use one warm-up of the budget. Returns whether there was one."""
        self.budget -= 1
        return self.budget >= 0


def move_actives(placement: Placement, lags: LagTable, warmups: Warmups) -> int:
    """Move active tasks to clients that are further on. Returns how many were moved.

    Tasks with the fewest clients to choose from come first. The preferred client is, in this order: the least loaded
    one that has caught up and has a standby, as changing roles costs nothing; the least loaded one that has caught up;
    the most caught-up one.
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
    """Put standbys on clients that are further on. Returns how many were moved.

    The intended clients keep their standbys as long as the budget of warm-ups lasts. Copies that already warm up stay.
    Standbys of one task are visited by client.
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
