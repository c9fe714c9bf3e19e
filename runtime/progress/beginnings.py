"""Where an application begins in the topics that it has not read yet, as `start` of its flows says."""

from __future__ import annotations

from collections.abc import Iterator

from ..log.commit.records import Beginning
from ..starts import parse_start
from ..task_id import TaskKey
from ..topology import Subtopology, Topic, Topology
from .committed import Committed
from .repartitioned import check_not_repartitioned
from .seeking import EARLIEST, LATEST, Whence, positions_at


def beginnings(topology: Topology, committed: Committed) -> tuple[Beginning, ...]:
    """The positions for the claim of an application: of topics in which none of its tasks has one.

    They are looked up at this moment. Positions that are there never change. Raises LogError, and
    TopicRepartitionedError where they would count other records from this claim on.
    """
    check_not_repartitioned(committed, only_read=True)
    if not any(part.starts for part in topology.subtopologies):
        return ()
    committed.refresh()
    check_not_repartitioned(committed, only_read=True)
    return tuple(found for part in topology.subtopologies for found in _of(part, committed))


def _of(part: Subtopology, committed: Committed) -> Iterator[Beginning]:
    for topic in part.sources:
        if topic.name in part.starts and (found := first_positions(part, topic, committed)) is not None:
            yield Beginning(part.name, topic.name, found)


def first_positions(part: Subtopology, topic: Topic, committed: Committed) -> dict[int, dict[int, int]] | None:
    """Partition -> lane -> where its tasks would begin in a topic now; None if one of them has a position in it.

    Raises LogError.
    """
    if _is_read(part, topic, committed):
        return None
    writer, whence = committed.of(topic), _whence(part.starts.get(topic.name, "earliest"))
    return {
        partition: positions_at(committed.log, writer, topic.name, partition, whence)
        for partition in range(topic.partitions)
    }


def _is_read(part: Subtopology, topic: Topic, committed: Committed) -> bool:
    tasks = (TaskKey(committed.application, part.name, partition) for partition in range(part.partitions))
    return any(topic.name in committed.own.tasks.of(task).positions for task in tasks)


def _whence(start: str) -> Whence:
    found = parse_start(start)
    if isinstance(found, int):
        return Whence("time", found)
    return EARLIEST if found == "earliest" else LATEST
