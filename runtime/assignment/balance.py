"""Even out loads: move tasks from heavier to lighter clients as long as that brings their loads closer together."""

from __future__ import annotations

from collections.abc import Callable

from .placement import Placement


def balance_actives(placement: Placement) -> None:
    """Move active tasks until no move helps. Call it before any standby is placed."""

    _balance(placement, placement.active, placement.move_active, None)


def balance_standbys(placement: Placement, allowed: Callable[[int, int], bool] | None) -> None:
    """Move standbys until no move helps.

    `allowed`: whether standbys may go from one client to another; None: always.
    """
    _balance(placement, placement.standby, placement.move_standby, allowed)


def _balance(
    placement: Placement,
    tasks: list[set[int]],
    move: Callable[[int, int, int], None],
    allowed: Callable[[int, int], bool] | None,
) -> None:
    """Visit each ordered pair of clients, and repeat until a whole round moves nothing."""
    load = placement.load
    clients = range(len(load))
    moved = True
    while moved:
        moved = False
        for source in clients:
            for destination in clients:
                # `_closer` compares loads too. Doing it here first saves most of its calls.
                if load[source] <= load[destination] or not _closer(placement, source, destination):
                    continue
                if allowed is not None and not allowed(source, destination):
                    continue
                for task in sorted(tasks[source]):
                    if not placement.has(destination, task):
                        move(source, destination, task)
                        moved = True
                        if not _closer(placement, source, destination):
                            break


def _closer(placement: Placement, source: int, destination: int) -> bool:
    """Whether moving one task leaves the source no lighter than the destination, and their loads closer together."""
    threads, count = placement.threads, placement.count
    skew = placement.load[source] - placement.load[destination]
    after = (count[source] - 1) / threads[source] - (count[destination] + 1) / threads[destination]
    return skew > 0 and 0 <= after < skew
