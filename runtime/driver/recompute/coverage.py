"""Whether a result that is computed again has taken all records that the old one is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...log.commit.descriptions import UsedTopic
from ...log.state import LogState
from ...progress.committed import Committed
from ...task_id import TaskKey

Positions = Mapping[int, int]
"""Lane -> position."""


def covers(new: Committed, old: LogState, members: Collection[str], waiting: int) -> bool:
    """Whether `new` has consumed what `old` has, and all that `members` have written for it, itself among them, but for
    so many records that are `waiting` for others.

    `members`: the applications that are computed again together. None of them, and nobody on the old result, may be at
    work. Records that come to other topics meanwhile do not matter: the new result takes them later, as the old one
    would have.
    """
    consumed = _consumed(old)
    for name, part in new.own.topology.subtopologies.items():
        for topic in part.sources:
            used = new.own.topology.topics[topic]
            same = _is_the_same(old.topology.topics.get(topic), used)
            for partition in range(used.partitions):
                task = TaskKey(new.application, name, partition)
                positions = new.own.tasks.of(task).positions.get(topic, {})
                if used.writer is not None and used.writer in members:
                    waiting -= _missing(positions, new.states[used.writer].lane_ends(topic, partition))
                elif same and _missing(positions, consumed.get((topic, partition), {})):
                    return False
    return waiting >= 0


def _consumed(state: LogState) -> dict[tuple[str, int], dict[int, int]]:
    """(topic, partition) -> how far it was consumed, by all subtopologies that read it."""
    found: dict[tuple[str, int], dict[int, int]] = {}
    for task in state.tasks.all():
        for topic, lanes in task.positions.items():
            known = found.setdefault((topic, task.partition), {})
            known.update({lane: max(position, known.get(lane, 0)) for lane, position in lanes.items()})
    return found


def _missing(positions: Positions, wanted: Positions) -> int:
    return sum(max(0, position - positions.get(lane, 0)) for lane, position in wanted.items())


def _is_the_same(was: UsedTopic | None, now: UsedTopic) -> bool:
    """Whether positions in a topic still mean the same records."""
    if was is None or (was.writer, was.partitions, was.key) != (now.writer, now.partitions, now.key):
        return False
    return None in (was.since, now.since) or was.since == now.since  # else its records were put elsewhere, and back
