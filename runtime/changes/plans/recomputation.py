"""How far the result of an application is that is computed again beside the one that it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...log.placed.log import PlacedLog, called
from ...log.state import LogState
from ...task_id import TaskKey
from .waiting import beyond


@dataclass(frozen=True)
class Recomputation:
    """A result of an `application` that is computed again.

    `records`: those that it has taken so far. `of`: all that are there for it, of topics that it does not write itself;
    None if no run has begun with it. `status`: what the run that works on it has written last, as text.
    """

    application: str
    records: int = 0
    of: int | None = None
    status: str | None = None


def recomputations(log: PlacedLog, project: str) -> dict[str, Recomputation]:
    """All of a project, by application. Raises LogError."""
    places = log.places().recomputed
    mine = {name: each.place for name, each in places.items() if name.startswith(f"{project}-")}
    beside = log.beside(mine)
    return {name: _of(beside, name, f"{project}-seed") for name in mine}


def _of(log: PlacedLog, application: str, seeds: str) -> Recomputation:
    status = log.read_status(application)
    own = LogState.load(log.commits(application))
    if not own.topology.subtopologies:
        return Recomputation(application, status=status)
    found = list(_taken(log, own, application, seeds))
    return Recomputation(application, sum(n for n, _ in found), sum(n for _, n in found), status)


def _taken(log: PlacedLog, own: LogState, application: str, seeds: str) -> Iterator[tuple[int, int]]:
    """Of each partition that a task reads: records taken, and all that are there."""
    states: dict[str, LogState] = {}
    for name, part in own.topology.subtopologies.items():
        topics = {topic: own.topology.topics[topic] for topic in part.sources if topic in own.topology.topics}
        for topic, used in topics.items():
            writer = called(log, used.writer)[0] if used.writer else seeds
            if writer == application:
                continue
            if writer not in states:
                states[writer] = LogState.load(log.commits(writer))
            state = states[writer]
            for partition in range(used.partitions):
                positions = own.tasks.of(TaskKey(application, name, partition)).positions.get(topic, {})
                there = sum(each.records for each in state.ranges(topic, partition))
                yield there - beyond(state, topic, partition, positions)[0], there
