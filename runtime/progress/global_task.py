"""Counts the records that a topology's global tables drop, once for the application.

Every client loads a global table whole, so no client can count its null keys for all. The driver counts them: it looks
at the keys of committed records, and commits its position as the progress of a task of its own (Kafka Streams' task
-1_-1). So a record counts once, whatever is restarted or restored.
"""

from __future__ import annotations

import time
from collections import Counter

from ..log.commit_records import TaskCommit
from ..log.errors import CorruptSegmentError, RangeMissingError
from ..operators.rows import null_keys
from ..records.schema import key_columns
from ..task_id import TaskKey
from ..topology import GlobalTable, Topology
from .committed import Committed

AGAIN_SECONDS = 1.0
"""How long records that cannot be read are left alone."""


def global_task(application: str) -> TaskKey:
    """The driver's own task in commits. No other task has a negative partition."""
    return TaskKey(application, "global", -1)


class GlobalTask:
    """Counts records with a null key in the topics of global tables. Used from the loop's thread only.

    `dropped`: `<table>:null_key` -> records that no commit has counted yet.
    """

    def __init__(self, topology: Topology, committed: Committed) -> None:
        self._committed = committed
        self._tables = {table.name: table for part in topology.subtopologies for table in part.global_tables}
        self._task = global_task(committed.application)
        seen = committed.own.tasks.of(self._task).globals_
        self._counted = {name: dict(ends) for name, ends in seen.items()}
        self._moved = False
        self._again_at = float("-inf")
        self.dropped: Counter[str] = Counter()

    def advance(self) -> None:
        """Count null keys in the records that were committed since the last call. Raises LogError.

        Records that cannot be read are counted later, by another run at the latest: the tasks that read the table tell
        of them, and no other task needs them.
        """
        if time.monotonic() < self._again_at:
            return
        for table in self._tables.values():
            topic = table.topic
            counted = self._counted.setdefault(table.name, {})
            for partition in range(topic.partitions):
                end = self._committed.of(topic).end(topic.name, partition)
                start = counted.get(partition, 0)
                if end > start:
                    try:
                        count = self._null_keys(table, partition, start)
                    except (RangeMissingError, CorruptSegmentError):
                        self._again_at = time.monotonic() + AGAIN_SECONDS
                        continue
                    self.dropped += Counter({f"{table.name}:null_key": count})
                    counted[partition] = end
                    self._moved = True

    def take(self) -> tuple[TaskCommit, ...]:
        """The task's commit, or nothing if no record was read since the last call."""
        if not self._moved:
            return ()
        dropped, self.dropped, self._moved = dict(self.dropped), Counter(), False
        seen = {name: dict(ends) for name, ends in self._counted.items()}
        return (TaskCommit(self._task.subtopology, self._task.partition, {}, -1, dropped=dropped, globals_=seen),)

    def _null_keys(self, table: GlobalTable, partition: int, start: int) -> int:
        """The number of null keys from offset `start` on."""
        topic = table.topic
        ranges = self._committed.of(topic).ranges(topic.name, partition, start)
        columns = [f"key.{name}" for name in key_columns(topic)]
        return sum(
            int(null_keys(found.records.columns, len(found.records))[found.offsets >= start].sum())
            for each in ranges
            for found in self._committed.log.read(each, each.position_of(start), columns)
        )
