"""Counts the records that a topology's global tables drop, once for the application.

Every client loads a global table whole, so no client can count its null keys for all. The driver counts them: it looks
at the keys of committed records, and commits its position as the progress of a task of its own (Kafka Streams' task
-1_-1). So a record counts once, whatever is restarted or restored.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from ..log.commit.records import TaskCommit
from ..log.errors import CorruptSegmentError, RangeMissingError
from ..operators.rows import null_keys
from ..records.schema import key_columns
from ..task_id import global_task
from ..topology import GlobalTable, Topology
from .committed import Committed

AGAIN_SECONDS = 1.0
"""How long records that cannot be read are left alone."""


def counted_as(table: GlobalTable) -> str:
    """The name under which the positions of a table are kept. It has the topic, as offsets are of that one only."""
    return f"{table.name}:{table.topic.name}"


def counted(committed: Committed, table: GlobalTable) -> Mapping[int, int]:
    """Partition -> offset up to which a table's topic was looked at.

    Earlier versions kept positions under the name of the table alone. They mean the table's topic only if that is one
    that the application has read.
    """
    own = committed.own
    seen = own.tasks.of(global_task(committed.application)).globals_
    earlier = seen.get(table.name, {}) if table.topic.name in own.topology.topics else {}
    return seen.get(counted_as(table)) or earlier


class GlobalTask:
    """Counts records with a null key in the topics of global tables. Used from the loop's thread only.

    `dropped`: `<table>:null_key` -> records that no commit has counted yet.
    """

    def __init__(self, topology: Topology, committed: Committed) -> None:
        self._committed = committed
        self._tables = {table.name: table for table in topology.global_tables}
        self._task = global_task(committed.application)
        self._counted = {name: dict(counted(committed, table)) for name, table in self._tables.items()}
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
            done = self._counted[table.name]
            for partition in range(topic.partitions):
                end = self._committed.of(topic).end(topic.name, partition)
                start = done.get(partition, 0)
                if end > start:
                    try:
                        count = self._null_keys(table, partition, start)
                    except (RangeMissingError, CorruptSegmentError):
                        self._again_at = time.monotonic() + AGAIN_SECONDS
                        continue
                    self.dropped += Counter({f"{table.name}:null_key": count})
                    done[partition] = end
                    self._moved = True

    def take(self) -> tuple[TaskCommit, ...]:
        """The task's commit, or nothing if no record was read since the last call."""
        if not self._moved:
            return ()
        dropped, self.dropped, self._moved = dict(self.dropped), Counter(), False
        seen = {counted_as(table): dict(self._counted[name]) for name, table in self._tables.items()}
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
