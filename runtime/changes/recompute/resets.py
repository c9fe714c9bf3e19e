"""Stores that are to be computed again because somebody has asked for it: a change like any other, but not one of the
project.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from ...progress.committed import Committed
from ...topology import Topology
from ..model import Change, Subject, Verdict, Way
from ..ways import UNDO, ways_back

RESET = "store.reset"
"""The kind of the change."""


def reset_changes(topology: Topology, committed: Committed) -> Iterator[Change]:
    """One for each store that the topology still has. Without any records consumed there is nothing to compute."""
    if not committed.own.tasks.consumed:
        return
    for part in topology.subtopologies:
        for store in part.stores:
            if store.name in committed.resets:
                subject = Subject("store", store.name, topology.application)
                what = "its rows are to be computed again: `headwater reset` has asked for it"
                place, ways = part.places.get(store.name), _ways(topology, store.name)
                yield Change(RESET, subject, Verdict.REFUSES, what, place=place, ways=ways)


def _ways(topology: Topology, store: str) -> tuple[Way, ...]:
    """To withdraw it, which comes first, or to begin again with what is there."""
    _, begin_again = ways_back(topology.application)
    withdraw = f"headwater reset {topology.name} --store {store} --withdraw"
    return Way(f"let the rows of {store} be as they are", withdraw), begin_again


def with_withdrawal(changes: Iterable[Change], asked: Collection[Change]) -> tuple[Change, ...]:
    """The changes, with the ways out that fit why results are computed again.

    `asked`: the changes that ask for it. A reset is withdrawn, and only what has changed in the project is undone.
    """
    withdraw = tuple(each.ways[0] for each in asked if each.kind == RESET)
    if not withdraw:
        return tuple(changes)
    undo = withdraw if all(each.kind == RESET for each in asked) else (UNDO, *withdraw)

    def ways(change: Change) -> Iterator[Way]:
        for way in change.ways:
            yield from undo if way == UNDO else (way,)

    return tuple(replace(each, ways=tuple(dict.fromkeys(ways(each)))) for each in changes)
