"""Processors, one record after another, after Kafka Streams' `ProcessorContextImpl`, `StreamTask` and
`PunctuationQueue`: the same class of a project, with stores that are dicts, and one queue of punctuations for a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from headwater import Record as Given
from headwater.tests.conformance.by_record.nodes import Headers, Key, Node, Record

EVER = 2**62


@dataclass(eq=False)
class Schedule:
    """A punctuation. `rank`: of its processor and in that; of those that are due for one time the lowest runs first."""

    interval: int
    callback: Callable[[int], object]
    node: Processing
    rank: tuple[int, ...]
    due: int = 0
    cancelled: bool = False

    def cancel(self) -> None:
        """Run it no more."""
        self.cancelled = True


@dataclass(eq=False)
class Task:
    """Sources by topic, which are taken by the time of their heads, ties by their order, and punctuations behind each
    record. `at`: the topic and offset of the record at work.
    """

    sources: Mapping[str, Node]
    partition: int = 0
    stream_time: int = -1
    at: tuple[str, int] | None = None
    schedules: list[Schedule] = field(default_factory=list)
    processors: list[Processing] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)

    def take_all(self, given: Mapping[str, Sequence[Record]]) -> None:
        """Records of topics that are there together."""
        queues = {topic: list(given.get(topic, ())) for topic in self.sources}
        while any(queues.values()):
            topic = min((topic for topic in queues if queues[topic]), key=lambda topic: queues[topic][0][2])
            self.take(topic, queues[topic].pop(0))

    def take(self, topic: str, record: Record) -> None:
        """One record."""
        for each in self.processors:
            each.begin()
        self.stream_time = max(self.stream_time, record[2])
        self.at = topic, self.taken.get(topic, 0)
        self.taken[topic] = self.at[1] + 1
        self.sources[topic].take(*record)
        self.at = None
        while due := [each for each in self.schedules if not each.cancelled and each.due <= self.stream_time]:
            first = min(due, key=lambda each: (each.due, each.rank))
            first.callback(self.stream_time)
            first.due += ((self.stream_time - first.due) // first.interval + 1) * first.interval


class Subtask(Node):
    """What lies behind a repartition topic: a task of its own, of one partition."""

    def __init__(self) -> None:
        super().__init__()
        start = Node()
        self.task = Task({"": start})
        self.behind.append(start)

    def then(self, *steps: Node) -> Any:
        self.behind[0].then(*steps)
        return self

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        self.task.take("", (key, value, time, headers))


class Processing(Node):
    """`process`: an object of a class, made by `make`, with these stores. `flows`: the names of its outputs."""

    def __init__(self, make: Callable[[], Any], task: Task, stores: Mapping[str, Any], flows: Sequence[str]) -> None:
        super().__init__()
        self.outputs = {flow: Node() for flow in flows}
        self._make, self._task, self._stores = make, task, stores
        self._object: Any = None
        self._in_init = True
        self._made = 0
        self._rank = len(task.processors)
        task.processors.append(self)
        for store in stores.values():
            store.node = self

    def begin(self) -> None:
        """Have it initialised, once."""
        if self._object is None:
            self._object = self._make()
            self._object.init(self)
            self._in_init = False

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        row = None if value is None else SimpleNamespace(**value)
        self._object.process(Given(None if key is None else SimpleNamespace(k=key), row, time, dict(headers)))

    def steps(self) -> set[Node]:
        return super().steps().union(*(each.steps() for each in self.outputs.values()))

    # What follows is the context.

    @property
    def stream_time(self) -> int:
        """The task's."""
        return self._task.stream_time

    @property
    def partition(self) -> int:
        """The task's."""
        return self._task.partition

    @property
    def topic(self) -> str | None:
        """Of the record at work."""
        return self._task.at and self._task.at[0]

    @property
    def offset(self) -> int | None:
        """Of the record at work."""
        return self._task.at and self._task.at[1]

    def store(self, name: str) -> Any:
        """One of its stores."""
        return self._stores[name]

    def forward(self, record: Any, flow: str | None = None) -> None:
        """To all steps behind, or to those of a flow."""
        key = None if record.key is None else plain(record.key)["k"]
        value = None if record.value is None else plain(record.value)
        out: Node = self if flow is None else self.outputs[flow]
        out.send(key, value, record.timestamp, dict(record.headers or {}))

    def schedule(self, interval: str, kind: str, callback: Callable[[int], object]) -> Schedule:
        """By stream time: due at 0 first."""
        assert kind == "stream_time"
        rank = self._rank, not self._in_init, self._made
        made = Schedule(int(interval.removesuffix("ms")), callback, self, rank)
        self._made += 1
        self._task.schedules.append(made)
        return made

    def schedules(self, callback: Callable[[int], object]) -> list[Schedule]:
        """Those that call this method, in the order in which they were made."""
        found = [each for each in self._task.schedules if each.callback == callback and not each.cancelled]
        return sorted(found, key=lambda each: each.rank)


def plain(row: Any) -> dict[str, Any]:
    """A row's columns."""
    return dict(row) if isinstance(row, Mapping) else dict(vars(row))


class KeyValueStore:
    """Rows by key `k`."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    def get(self, key: Any) -> Any:
        found = self._rows.get(plain(key)["k"])
        return None if found is None else SimpleNamespace(**found)

    def put(self, key: Any, value: Any) -> None:
        if value is None:
            self._rows.pop(plain(key)["k"], None)
        else:
            self._rows[plain(key)["k"]] = plain(value)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def delete(self, key: Any) -> Any:
        found = self.get(key)
        self.put(key, None)
        return found

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        lower, upper = ("" if start is None else plain(start)["k"]), (None if end is None else plain(end)["k"])
        found = sorted(self._rows.items(), key=lambda each: each[0].encode())
        return iter(
            [
                (SimpleNamespace(k=key), SimpleNamespace(**row))
                for key, row in found
                if lower.encode() <= key.encode() and (upper is None or key.encode() <= upper.encode())
            ]
        )

    def all(self) -> Iterator[tuple[Any, Any]]:
        return self.range(None, None)


class TimedStore:
    """Rows by key and times, which are there while the first of these is later than the greatest one that was put or
    deleted minus `retention`, as in Kafka Streams' `observedStreamTime`.
    """

    def __init__(self, retention: int) -> None:
        self._retention = retention
        self._rows: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
        self.node: Any = None
        self._clock = -1

    def _oldest(self) -> int:
        return self._clock - self._retention + 1

    def _put(self, key: Any, value: Any, *times: int) -> None:
        self._clock = max(self._clock, times[0])
        if times[0] < self._oldest():
            self.node.dropped["late"] += value is not None
        elif value is None:
            self._rows.pop((plain(key)["k"], times), None)
        else:
            self._rows[plain(key)["k"], times] = plain(value)

    def _get(self, key: Any, *times: int) -> Any:
        found = self._rows.get((plain(key)["k"], times))
        return None if found is None or times[0] < self._oldest() else SimpleNamespace(**found)

    def _found(self, key: Any, first: int, last: int) -> list[tuple[tuple[int, ...], Any]]:
        rows = sorted((times, row) for (k, times), row in self._rows.items() if k == plain(key)["k"])
        lowest = max(first, self._oldest())
        return [(times, SimpleNamespace(**row)) for times, row in rows if lowest <= times[0] <= last]

    def all(self, reverse: bool = False) -> Iterator[tuple[Any, ...]]:
        segment = max(self._retention // 2, 60_000)
        there = [(times[0] // segment, key, times) for key, times in self._rows if times[0] >= self._oldest()]
        rows = [(SimpleNamespace(k=key), times, self._rows[key, times]) for _, key, times in sorted(there)]
        found = [(key, *reversed(times), SimpleNamespace(**row)) for key, times, row in rows]
        return iter(found[::-1] if reverse else found)


class WindowStore(TimedStore):
    """Rows by key and start."""

    def put(self, key: Any, value: Any, start: int) -> None:
        self._put(key, value, start)

    def fetch(self, key: Any, first: int, last: int | None = None) -> Any:
        if last is None:
            return self._get(key, first)
        return iter([(start, row) for (start,), row in self._found(key, first, last)])


class SessionStore(TimedStore):
    """Rows by key, start and end."""

    def put(self, key: Any, value: Any, start: int, end: int) -> None:
        self._put(key, value, end, start)

    def remove(self, key: Any, start: int, end: int) -> None:
        self._put(key, None, end, start)

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Iterator[tuple[int, int, Any]]:
        found = self._found(key, earliest_end, EVER)
        return iter([(start, end, row) for (end, start), row in found if start <= latest_start])
