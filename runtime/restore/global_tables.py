"""Loads a client's global tables up to the ends of their topics, in slices, before the tasks that read them run.

Source: `GlobalStateManagerImpl` of Kafka Streams. It restores up to the ends of the topics at its start, before all
other threads. From there on each epoch applies new records. A client's global tables stay when tasks move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..ir.topology import GlobalTable
from ..state.restore_listener import RestoreListener
from ..task_id import StoreId, TaskId
from ..tasks.errors import TaskCorruptedError
from ..tasks.plan import LaneInput, Positions, TopicInput
from ..tasks.state import TaskType
from .linked_stores import LinkedStores, Loaded
from .requests import TableTarget

MAX_RANGES = 1024
"""The most ranges of a partition in one request. All ranges are part of the request."""


@dataclass
class _Loading:
    """A table that is being loaded. `topics`: its missing records, by partition, up to the ends at the start.

    `ends`: by partition, the sum of the lanes' target positions. `reported`: partition -> number of applied positions
    reported to the listener; None once the partition is complete.
    """

    table: GlobalTable
    topics: tuple[TopicInput, ...]
    ends: tuple[int, ...]
    reported: dict[int, int | None] = field(default_factory=dict)


class GlobalTables:
    """The global tables that one client's tasks read. Only the epoch loop's thread uses it.

    `positions`: table -> partition -> lane -> known position of the client's store. Epochs advance it. The entry of a
    damaged table is removed, so that the table is loaded again.
    """

    def __init__(self, stores: LinkedStores, listener: RestoreListener) -> None:
        self._stores = stores
        self._listener = listener
        self._loading: dict[str, _Loading] = {}
        self._loaded: set[str] = set()
        self._waiting: dict[str, set[TaskId]] = {}
        self.positions: dict[str, dict[int, dict[int, int]]] = {}

    def is_ready(self, task: TaskId) -> bool:
        """Whether all tables that a task reads are loaded. Loading of missing ones starts."""
        self._loaded &= self.positions.keys()
        missing = [table for table in self._stores.global_tables(task) if table.name not in self._loaded]
        for table in missing:
            self._waiting.setdefault(table.name, set()).add(task)
            if table.name not in self._loading:
                topics = self._stores.missing_records(table, self.positions.get(table.name, {}))
                self._loading[table.name] = _Loading(table, topics, tuple(map(_end, topics)))
        return not missing

    def next_targets(self) -> list[TableTarget]:
        """The next records of all tables that are being loaded."""
        return [TableTarget(loading.table, tuple(map(_first, loading.topics))) for loading in self._loading.values()]

    def record(self, results: Mapping[str, Loaded]) -> dict[TaskId, Exception]:
        """Record the results of a slice. Returns errors of the tasks that wait for a table."""
        waiting, self._waiting = self._waiting, {}  # tasks that still wait call `is_ready` again
        failed: dict[TaskId, Exception] = {}
        for name, result in results.items():
            if isinstance(result, TaskCorruptedError) and self._stores.is_replaced(result):
                if loading := self._loading.get(name):
                    loading.topics = self._stores.missing_records(loading.table, self.positions.get(name, {}))
                continue
            if isinstance(result, TaskCorruptedError):
                failed.update(dict.fromkeys(waiting.get(name, ()), result))
                continue
            before = self.positions.get(name, {})
            self.positions[name] = result
            loading = self._loading.get(name)
            if loading is None:
                continue
            if _is_behind(result, before):  # it was damaged and restarts
                loading.topics = self._stores.missing_records(loading.table, result)
            else:
                loading.topics = tuple(_remaining(topic, result.get(n, {})) for n, topic in enumerate(loading.topics))
            for partition in range(len(loading.topics)):
                self._report(loading, partition, before.get(partition, {}), result.get(partition, {}))
            if not any(lane.ranges for topic in loading.topics for lane in topic.lanes):
                del self._loading[name]
                self._loaded.add(name)
        return failed

    def _report(self, loading: _Loading, partition: int, before: Mapping[int, int], now: Mapping[int, int]) -> None:
        """Report a partition of the topic to the listener, like a changelog."""
        store, end = StoreId(loading.table.name, partition), loading.ends[partition]
        first, position = sum(before.values()), sum(now.values())
        if partition not in loading.reported:
            loading.reported[partition] = 0
            self._listener.started(TaskType.ACTIVE, store, first, end)
        records = loading.reported[partition]
        if records is None:
            return
        if position > first:
            records += position - first
            self._listener.batch(TaskType.ACTIVE, store, position, end, position - first)
        loading.reported[partition] = records if position < end else None
        if position >= end:
            self._listener.ended(TaskType.ACTIVE, store, records)


def _end(topic: TopicInput) -> int:
    return sum(lane.end for lane in topic.lanes)


def _is_behind(now: Positions, before: Positions) -> bool:
    return any(
        now.get(partition, {}).get(lane, 0) < position
        for partition, lanes in before.items()
        for lane, position in lanes.items()
    )


def _remaining(topic: TopicInput, positions: Mapping[int, int]) -> TopicInput:
    """The remaining records of a partition for a store at these positions (lane -> position)."""
    return replace(topic, lanes=tuple(_remaining_lane(lane, positions.get(lane.lane, 0)) for lane in topic.lanes))


def _remaining_lane(lane: LaneInput, position: int) -> LaneInput:
    if position <= lane.position:
        return lane
    ranges = tuple(log_range for log_range in lane.ranges if log_range.end > position)
    return replace(lane, position=position, ranges=ranges)


def _first(topic: TopicInput) -> TopicInput:
    """The first MAX_RANGES ranges of a partition by offset, and all ranges that overlap them.

    Records of all lanes are applied in the order of their offsets. So no record of a later request may have a smaller
    offset than a record of this one.
    """
    ranges = sorted((r for lane in topic.lanes for r in lane.ranges), key=lambda log_range: log_range.start_offset)
    first, end_offset = set[tuple[int, int]](), 0
    for number, log_range in enumerate(ranges):
        if number >= MAX_RANGES and log_range.start_offset >= end_offset:
            break
        first.add((log_range.lane, log_range.start))
        end_offset = max(end_offset, log_range.end_offset)
    if len(first) == len(ranges):
        return topic
    lanes = (
        replace(lane, ranges=tuple(r for r in lane.ranges if (r.lane, r.start) in first), more=True)
        for lane in topic.lanes
    )
    return replace(topic, lanes=tuple(lanes))
