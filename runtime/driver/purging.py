"""Removes records of repartition topics that their readers have consumed: nobody else reads these.

Source: `TaskManager.maybePurgeCommittedRecords` of Kafka Streams, with its `repartition.purge.interval.ms`. There each
client deletes what its tasks have committed. Here the driver knows the positions of all tasks, so it is one commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from ..log.commit.records import Purged
from ..progress.committed import Committed
from ..task_id import TaskId
from ..topology import Topology
from .epoch_commits import EpochCommits

PURGE_SECONDS = 30.0
"""How often. Kafka Streams' default."""


class RepartitionPurge:
    """Used from the loop's thread. `seconds`: a clock that never goes back."""

    def __init__(
        self,
        topology: Topology,
        committed: Committed,
        commits: EpochCommits,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._committed = committed
        self._commits = commits
        self._seconds = seconds
        self._due = seconds() + PURGE_SECONDS
        self._seen = 0
        written = {name for part in topology.subtopologies for name in part.repartition_topics}
        self._readers = [
            (TaskId(part.number, partition, part.name), topic)
            for part in topology.subtopologies
            for topic in (topic.name for topic in part.sources if topic.name in written)
            for partition in range(part.partitions)
        ]

    def advance(self) -> None:
        """Commit what may go, if the time has come and there is something. Raises FencedError."""
        if not self._readers or self._seconds() < self._due:
            return
        self._due = self._seconds() + PURGE_SECONDS
        if self._seen == self._committed.own.number:
            return
        self._seen = self._committed.own.number
        purged = tuple(self._consumed())
        if purged:
            self._commits.purge(purged)

    def _consumed(self) -> Iterator[Purged]:
        """What the readers have consumed, where at least a whole segment can go."""
        own = self._committed.own
        for task, topic in self._readers:
            lanes: Mapping[int, int] = own.tasks.of(task.key(self._committed.application)).positions.get(topic, {})
            if whole := {lane: end for lane, end in lanes.items() if own.can_forget(topic, task.partition, lane, end)}:
                yield Purged(topic, task.partition, whole)
