"""Brings a client's copies of global tables to the ends of their topics, in slices, before tasks that read them run.

Source: `GlobalStateManagerImpl` of Kafka Streams. It restores up to the ends that the topics have when it begins, and
its thread is started before all others. From there on each epoch applies what is new. Copies stay when tasks move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..state.restore_listener import RestoreListener
from ..task_id import StoreId, TaskId
from ..tasks.plan import TopicInput
from ..tasks.state import TaskType
from .linked_stores import LinkedStores
from .requests import TableTarget

MOST_RANGES = 1024
"""Ranges of a partition in one request: each travels with it."""

_Ends = Mapping[int, Mapping[int, int]]
"""Partition -> lane -> position."""


class GlobalTables:
    """The global tables that one client's tasks read. Used from the loop's thread.

    `held`: table -> partition -> lane -> position that the client's copy is known to have. Epochs move it on, and who
    finds a copy damaged clears it: then it is loaded again.
    """

    def __init__(self, stores: LinkedStores, listener: RestoreListener) -> None:
        self._stores = stores
        self._listener = listener
        self._goals: dict[str, _Ends] = {}
        self._loaded: set[str] = set()
        self._records: dict[StoreId, int] = {}
        self.held: dict[str, dict[int, dict[int, int]]] = {}

    def ready(self, task: TaskId) -> bool:
        """Whether the tables are loaded that a task reads. Those that are not are loaded from now on."""
        self._loaded &= self.held.keys()
        missing = [table for table in self._stores.global_tables(task) if table.name not in self._loaded]
        for table in missing:
            if table.name not in self._goals:
                self._goals[table.name] = _ends(self._stores.rest(table, {}))
        return not missing

    def next_targets(self) -> list[TableTarget]:
        """The next part of the work on each table that is to be loaded; nothing if none is."""
        return [
            TableTarget(table, tuple(map(_first, self._stores.rest(table, self.held.get(name, {})))))
            for name, table in self._stores.tables.items()
            if name in self._goals
        ]

    def take(self, found: Mapping[str, dict[int, dict[int, int]]]) -> None:
        """Note what a slice has come to."""
        for name, now in found.items():
            before, goal = self.held.get(name), self._goals.get(name)
            self.held[name] = now
            if goal is None:
                continue
            self._tell(name, before, now, goal)
            if all(
                now.get(part, {}).get(lane, 0) >= end for part, lanes in goal.items() for lane, end in lanes.items()
            ):
                del self._goals[name]
                self._loaded.add(name)

    def _tell(self, name: str, before: _Ends | None, now: _Ends, goal: _Ends) -> None:
        """What is loaded, partition by partition of the topic, as if it were a changelog."""
        for partition, lanes in goal.items():
            store, end = StoreId(name, partition), sum(lanes.values())
            position, first = (sum(each.get(partition, {}).values()) for each in (now, before or {}))
            if store not in self._records:
                self._records[store] = 0
                self._listener.started(TaskType.ACTIVE, store, 0, end)
            if position > first:
                self._records[store] += position - first
                self._listener.batch(TaskType.ACTIVE, store, position, end, position - first)
            if position >= end:
                self._listener.ended(TaskType.ACTIVE, store, self._records.pop(store))


def _ends(topics: Sequence[TopicInput]) -> _Ends:
    return {partition: {lane.lane: lane.end for lane in topic.lanes} for partition, topic in enumerate(topics)}


def _first(topic: TopicInput) -> TopicInput:
    """The beginning of a partition's records, by offset: all before some offset, of whatever lane they are."""
    ranges = sorted((each for lane in topic.lanes for each in lane.ranges), key=lambda each: each.start_offset)
    if len(ranges) <= MOST_RANGES:
        return topic
    kept, reached = set[str](), 0
    for number, each in enumerate(ranges):
        # Only where no range reaches beyond: records of several lanes are applied in the order of their offsets.
        if number >= MOST_RANGES and each.start_offset >= reached:
            break
        kept.add(each.token)
        reached = max(reached, each.end_offset)
    lanes = (
        replace(lane, ranges=tuple(each for each in lane.ranges if each.token in kept), more=True)
        for lane in topic.lanes
    )
    return replace(topic, lanes=tuple(lanes))
