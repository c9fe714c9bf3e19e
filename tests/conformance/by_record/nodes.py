"""Steps that take one record after another, as Kafka Streams' processors do: what the runtime is held to.

Nothing here is vectorised, knows of epochs, or shares code with the package. What a step sends on goes through all
steps behind it before its next output. A stream's record is (key, value, timestamp, headers); a table's has a `Change`
in the place of its value. A key in windows is (key, start, end). What is marked [HW] is not as in Kafka Streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Self

Key = Hashable
Value = Mapping[str, Any] | None
Headers = Mapping[str, str]
Record = tuple[Any, Any, int, Headers]


@dataclass(frozen=True)
class Change:
    """A row of a table, and the one that it replaces; None for no row."""

    new: Value
    old: Value


class Node:
    """A step. `dropped`: how many records it has counted as dropped, by reason."""

    def __init__(self) -> None:
        self.behind: list[Node] = []
        self.dropped: Counter[str] = Counter()

    def then(self, *steps: Node) -> Self:
        """With these steps behind it, one after another; several calls are several branches, in order."""
        here: Node = self
        for step in steps:
            here.behind.append(step)
            here = step
        return self

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        """One record; by itself a step passes it on."""
        self.send(key, value, time, headers)

    def send(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        """Give a record to all steps behind."""
        for step in self.behind:
            step.take(key, value, time, headers)

    def steps(self) -> set[Node]:
        """This step and all behind it."""
        return {self}.union(*(step.steps() for step in self.behind))


class Written(Node):
    """A topic: what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        self.records.append((key, value.new if isinstance(value, Change) else value, time, headers))


class Mapped(Node):
    """A step on single records of a stream: the function gives what goes on, or None for nothing."""

    def __init__(self, function: Callable[[Any, Any], tuple[Key, Value] | None]) -> None:
        super().__init__()
        self._function = function

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        made = self._function(key, value)
        if made is not None:
            self.send(*made, time, headers)


class Keyed(Node):
    """A new key of a stream, and its way through a repartition topic: null keys are dropped and counted [HW]."""

    def __init__(self, function: Callable[[Any, Any], Key]) -> None:
        super().__init__()
        self._function = function

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        made = self._function(key, value)
        if made is None:
            self.dropped["null_key"] += 1
        else:
            self.send(made, value, time, headers)


class ToStream(Node):
    """The changes of a table as records."""

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        self.send(key, value.new, time, headers)


class Rows(Node):
    """A step on the rows of a table: the function gives the row that goes on, or None for none."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        super().__init__()
        self._function = function

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        new, old = (None if row is None else self._function(row) for row in (value.new, value.old))
        if new is not None or old is not None:
            self.send(key, Change(new, old), time, headers)


class Latest(Node):
    """A table of a topic's records."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[Key, Value] = {}

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        if key is None:
            self.dropped["null_key"] += 1
            return
        old, self._rows[key] = self._rows.get(key), value
        self.send(key, Change(value, old), time, headers)


class Collapsed(Node):
    """`emit: per_epoch`, as the record cache: of each key the change from the start of an epoch to its end, in
    the order of the last ones. A row that came and went is none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changed: dict[Key, Record] = {}

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        before = self._changed.pop(key, None)
        old = value.old if before is None else before[1].old
        self._changed[key] = key, Change(value.new, old), time, headers

    def flush(self) -> None:
        """The end of an epoch."""
        changed, self._changed = [*self._changed.values()], {}
        for each in changed:
            if each[1].new is not None or each[1].old is not None:
                self.send(*each)


class Suppressed(Node):
    """`KTableSuppressProcessor`. `wait`: ms; `final`: until windows are closed; `most`: entries, of which the oldest
    goes on where there is one more.

    The old row is the one that went on last [HW].
    """

    def __init__(self, wait: int, final: bool = False, most: int | None = None) -> None:
        super().__init__()
        self._wait, self._final, self._most = wait, final, most
        self._clock = -1
        self._waits: dict[tuple[int, Any], Record] = {}

    def take(self, key: Any, value: Any, time: int, headers: Headers) -> None:
        self._clock = max(self._clock, time)
        # Of one time in the order of the key's bytes: key, then end, then start.
        at = (key[0].encode(), key[2], key[1]) if isinstance(key, tuple) else key.encode()
        place = next((each for each in self._waits if each[1] == at), (key[2] if self._final else time, at))
        before = self._waits.get(place)
        old = value.old if before is None else before[1].old
        self._waits[place] = key, Change(value.new, old), time, headers
        while self._waits and (min(self._waits)[0] <= self._clock - self._wait or self._full()):
            gone = self._waits.pop(min(self._waits))
            if not self._final:
                self.send(*gone)
            elif gone[1].new is not None:
                self.send(gone[0], gone[1].new, *gone[2:])

    def _full(self) -> bool:
        return self._most is not None and len(self._waits) > self._most
