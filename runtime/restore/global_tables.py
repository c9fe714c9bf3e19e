"""Brings a client's copies of global tables to the ends of their topics, in slices, before tasks that read them run.

Source: `GlobalStateManagerImpl` of Kafka Streams. It restores up to the ends that the topics have when it begins, and
its thread is started before all others. From there on each epoch applies what is new. Copies stay when tasks move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..ir.topology import GlobalTable
from ..state.restore_listener import RestoreListener
from ..task_id import StoreId, TaskId
from ..tasks.errors import TaskCorruptedError
from ..tasks.plan import LaneInput, TopicInput
from ..tasks.state import TaskType
from .linked_stores import LinkedStores, Loaded
from .requests import TableTarget

MAX_RANGES = 1024
"""Ranges of a partition in one request: each travels with it."""

_Ends = Mapping[int, Mapping[int, int]]
"""Partition -> lane -> position."""


@dataclass
class _Loading:
    """A table that is loaded. `topics`: what the copy lacks of all that there was when this began, by partition.

    `ends`: by partition, the sum of the positions that it is loaded up to. `told`: partitions of which a listener has
    heard -> positions that were applied; None once all of them were.
    """

    table: GlobalTable
    topics: tuple[TopicInput, ...]
    ends: tuple[int, ...]
    told: dict[int, int | None] = field(default_factory=dict)


class GlobalTables:
    """The global tables that one client's tasks read. Used from the loop's thread.

    `held`: table -> partition -> lane -> position that the client's copy is known to have. Epochs move it on, and who
    finds a copy damaged takes it out: then it is loaded again.
    """

    def __init__(self, stores: LinkedStores, listener: RestoreListener) -> None:
        self._stores = stores
        self._listener = listener
        self._loading: dict[str, _Loading] = {}
        self._loaded: set[str] = set()
        self._waiting: dict[str, set[TaskId]] = {}
        self.held: dict[str, dict[int, dict[int, int]]] = {}

    def ready(self, task: TaskId) -> bool:
        """Whether the tables are loaded that a task reads. Those that are not are loaded from now on."""
        self._loaded &= self.held.keys()
        missing = [table for table in self._stores.global_tables(task) if table.name not in self._loaded]
        for table in missing:
            self._waiting.setdefault(table.name, set()).add(task)
            if table.name not in self._loading:
                topics = self._stores.rest(table, self.held.get(table.name, {}))
                self._loading[table.name] = _Loading(table, topics, tuple(map(_end, topics)))
        return not missing

    def next_targets(self) -> list[TableTarget]:
        """The next part of the work on each table that is to be loaded; nothing if none is."""
        return [TableTarget(each.table, tuple(map(_first, each.topics))) for each in self._loading.values()]

    def take(self, found: Mapping[str, Loaded]) -> dict[TaskId, Exception]:
        """Note what a slice has come to; what went wrong with the tasks that wait for a table."""
        waiting, self._waiting = self._waiting, {}  # those that still do ask again
        failed: dict[TaskId, Exception] = {}
        for name, now in found.items():
            if isinstance(now, TaskCorruptedError) and self._stores.replaced(now):
                if loading := self._loading.get(name):
                    loading.topics = self._stores.rest(loading.table, self.held.get(name, {}))
                continue
            if isinstance(now, TaskCorruptedError):
                failed.update(dict.fromkeys(waiting.get(name, ()), now))
                continue
            before = self.held.get(name, {})
            self.held[name] = now
            loading = self._loading.get(name)
            if loading is None:
                continue
            if _is_behind(now, before):  # it was damaged, and begins again
                loading.topics = self._stores.rest(loading.table, now)
            else:
                loading.topics = tuple(_left(topic, now.get(n, {})) for n, topic in enumerate(loading.topics))
            for partition in range(len(loading.topics)):
                self._tell(loading, partition, before.get(partition, {}), now.get(partition, {}))
            if not any(lane.ranges for topic in loading.topics for lane in topic.lanes):
                del self._loading[name]
                self._loaded.add(name)
        return failed

    def _tell(self, loading: _Loading, partition: int, before: Mapping[int, int], now: Mapping[int, int]) -> None:
        """What is loaded of a partition of the topic, as if it were a changelog."""
        store, end = StoreId(loading.table.name, partition), loading.ends[partition]
        first, position = sum(before.values()), sum(now.values())
        if partition not in loading.told:
            loading.told[partition] = 0
            self._listener.started(TaskType.ACTIVE, store, first, end)
        records = loading.told[partition]
        if records is None:
            return
        if position > first:
            records += position - first
            self._listener.batch(TaskType.ACTIVE, store, position, end, position - first)
        loading.told[partition] = records if position < end else None
        if position >= end:
            self._listener.ended(TaskType.ACTIVE, store, records)


def _end(topic: TopicInput) -> int:
    return sum(lane.end for lane in topic.lanes)


def _is_behind(now: _Ends, before: _Ends) -> bool:
    return any(
        now.get(partition, {}).get(lane, 0) < position
        for partition, lanes in before.items()
        for lane, position in lanes.items()
    )


def _left(topic: TopicInput, held: Mapping[int, int]) -> TopicInput:
    """What is left of a partition for a copy with these positions."""
    return replace(topic, lanes=tuple(_left_of_lane(lane, held.get(lane.lane, 0)) for lane in topic.lanes))


def _left_of_lane(lane: LaneInput, held: int) -> LaneInput:
    if held <= lane.position:
        return lane
    return replace(lane, position=held, ranges=tuple(each for each in lane.ranges if each.end > held))


def _first(topic: TopicInput) -> TopicInput:
    """The first records of a partition, by offset: MAX_RANGES, and those that reach among them.

    Records of several lanes are applied in the order of their offsets. So none that is left out may come before the
    end of one that is taken.
    """
    ranges = sorted((each for lane in topic.lanes for each in lane.ranges), key=lambda each: each.start_offset)
    kept, reached = set[tuple[int, int]](), 0
    for number, each in enumerate(ranges):
        if number >= MAX_RANGES and each.start_offset >= reached:
            break
        kept.add((each.lane, each.start))
        reached = max(reached, each.end_offset)
    if len(kept) == len(ranges):
        return topic
    lanes = (
        replace(lane, ranges=tuple(each for each in lane.ranges if (each.lane, each.start) in kept), more=True)
        for lane in topic.lanes
    )
    return replace(topic, lanes=tuple(lanes))
