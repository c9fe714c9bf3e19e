"""Which records of a topic have no order yet among partitions: those of one commit. Commits come one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...log.commit.fed_records import SeededPart
from ...log.state import LogState

Ends = tuple[int, ...]
"""An offset of each partition."""


@dataclass(frozen=True)
class Group:
    """Records up to these offsets, from where the group before ends. `seed`: whether they are those of the seed."""

    ends: Ends
    seed: bool = False


def groups(state: LogState, topic: str, after: Ends) -> Iterator[Group]:
    """The groups of a topic behind these offsets, the earliest first.

    Where nothing says what was fed together, because an earlier version has not noted it, all is one group, but for
    the seed's records.
    """
    partitions = range(len(after))
    last = tuple(state.end(topic, each) for each in partitions)
    marks = [mark for mark in state.marks.of(topic) if any(map(int.__gt__, mark, after))]
    parts = (state.seeds[topic].parts or ()) if topic in state.seeds else ()
    begin = after
    for end in dict.fromkeys((*marks, last)):
        yield from _split(begin, end, parts)
        begin = end


def _split(begin: Ends, end: Ends, parts: tuple[SeededPart, ...]) -> Iterator[Group]:
    """A group, or what is before the seed, the seed, and what is behind it."""
    own = {
        part.partition: part for part in parts if begin[part.partition] <= part.start < part.end <= end[part.partition]
    }
    if own:
        # A partition without records of the seed has all that it has behind them: a seed mostly comes first.
        before = tuple(own[each].start if each in own else begin[each] for each in range(len(end)))
        seeded = tuple(own[each].end if each in own else begin[each] for each in range(len(end)))
        yield Group(before)
        yield Group(seeded, seed=True)
    yield Group(end)
