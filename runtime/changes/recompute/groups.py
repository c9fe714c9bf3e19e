"""Which topologies are computed again together: changed ones, with all that have read from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ...topology import Topology
from .moves import Moves


def together(
    topologies: Sequence[Topology],
    changed: Collection[str],
    moves: Moves | None = None,
    before: Mapping[str, Collection[str]] | None = None,
) -> Iterator[list[Topology]]:
    """The topologies that are computed again together: changed ones with all that read from them, or take over what
    these have written, in given order.

    `before`: application -> those whose results it has read so far. One that reads another topic by now still has what
    it made of them, until its own new result takes over: so both do at once.
    """
    reached: dict[str, set[str]] = {name: {name} for name in changed}
    taken = {} if moves is None else moves.takes()
    writers = {
        name: {*writers_of(each), *taken.get(name, ()), *(before or {}).get(name, ())}
        for name, each in ((each.application, each) for each in topologies)
    }
    for members in reached.values():
        while more := {name for name, read in writers.items() if name not in members and read & members}:
            members |= more
    left = list(reached.values())
    while left:
        group = left.pop()
        while joined := [each for each in left if each & group]:
            group = group.union(*joined)
            left = [each for each in left if each not in joined]
        yield [each for each in topologies if each.application in group]


def with_readers(topologies: Sequence[Topology], application: str) -> list[Topology]:
    """A topology, then all that read from it."""
    (group,) = together(topologies, {application})
    return sorted(group, key=lambda each: each.application != application)


def writers_of(topology: Topology) -> set[str]:
    """The applications whose topics a topology reads."""
    return {topic.writer for topic in topology.read if topic.writer is not None}
