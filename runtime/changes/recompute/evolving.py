"""How changes read where the result is computed again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ...topology import Topology
from ..model import Change, ReadAgain, Subject, Verdict
from ..ways import CONTINUE, FROM_THE_FIRST, UNDO, start_again

RECOMPUTED = "topology.recomputed"
"""The kind of a change of a topology whose result is computed again."""

_FROM_NOW_ON = {
    "flow.added": "it is new",
    "flow.removed": "it is gone",
    "topic.columns": "its columns changed",
}
"""Changes that are told in other words where nothing is computed again: then they count for new records only."""


def written_by(group: Iterable[Topology]) -> frozenset[str]:
    """The topics that topologies write."""
    return frozenset(topic.name for each in group for topic in each.written)


def evolving_of(change: Change, written: Collection[str]) -> Change:
    """What a change means where the result is computed again: none is refused, and each counts for all records.

    `written`: the topics that are computed again. Others stay as they are.
    """
    if change.kind in _FROM_NOW_ON and (change.subject.kind == "flow" or change.subject.name in written):
        what = f"{_FROM_NOW_ON[change.kind]}, for all records"
        return replace(change, verdict=Verdict.EVOLVES, what=what, ways=(), onward="")
    if change.onward:
        return replace(change, verdict=Verdict.EVOLVES, what=f"{change.what}, for all records", ways=(), onward="")
    if change.verdict is Verdict.REFUSES:
        return replace(change, verdict=Verdict.EVOLVES, ways=())
    return change


def computed_again(
    topology: Topology,
    changed: bool,
    again: Iterable[ReadAgain] = (),
    *,
    may_go_on: bool = False,
    may_begin_again: bool = False,
) -> Change:
    """That a topology's result is computed again. `changed`: because it has changed itself. `again`: what it reads.

    `may_go_on`: whether the changes may count from the next record on instead. `may_begin_again`: whether the topology
    may begin with nothing instead, without a result until that has caught up.
    """
    ways = [UNDO, CONTINUE] if may_go_on else [UNDO]
    if changed and may_begin_again:
        ways.append(start_again(f"give up the present result first, and start {FROM_THE_FIRST}", f"{topology.name}+"))
    why = "" if changed else "it reads what is computed again: "
    return Change(
        RECOMPUTED,
        Subject.of_topology(topology.application),
        Verdict.EVOLVES,
        f"{why}its result is computed again beside the one that is there, which stays until the new one has caught up",
        ways=tuple(ways),
        reads_again=tuple(again),
    )
