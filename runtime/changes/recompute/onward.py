"""Changes that need no result to be computed again, if somebody wants it so: they count from the next record on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..model import Change, Verdict
from ..ways import CONTINUE
from .repartition import STILL_READ

INCOMPLETE = "topic.incomplete"
"""The kind of a change that stops a result from being computed again: records that it would read are not there any
more.
"""


def going_on(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes of an application that goes on from what is committed, as far as they allow it."""
    return tuple(
        replace(each, verdict=Verdict.COMPATIBLE, what=f"{each.what}; {each.onward}", ways=()) if each.onward else each
        for each in changes
    )


def may_go_on(changes: Iterable[Change]) -> bool:
    """Whether an application could go on with all of its changes."""
    obstacles = (each for each in changes if each.verdict is Verdict.REFUSES)
    return all(each.onward or each.kind in (STILL_READ, INCOMPLETE) for each in obstacles)


def with_real_ways(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes of an application, to go on as a way out only if none of them stops that."""
    found = tuple(changes)
    if may_go_on(found):
        return found
    return tuple(replace(each, ways=tuple(way for way in each.ways if way != CONTINUE)) for each in found)
