"""Aggregates without windows, of a stream and of a table, one record after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headwater.tests.conformance.by_record.nodes import Change, Headers, Key, Node, Value, Written
from headwater.tests.conformance.by_record.windows import Aggregate


class Grouped(Node):
    """`KStreamAggregate`: a row for each key, with the greatest time of its records."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__()
        self._aggregate = aggregate
        self._rows: dict[Key, tuple[Any, int]] = {}

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        if key is None or value is None:
            self.dropped["null_key" if key is None else "null_value"] += 1
            return
        before = self._rows.get(key)
        state, latest = (self._aggregate.initial(), time) if before is None else before
        old = None if before is None else self._aggregate.row(state)
        state, latest = self._aggregate.add(state, key, value), max(latest, time)
        new = self._aggregate.row(state)
        if new is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = state, latest
        self.send(key, Change(new, old), latest, headers)


class Regrouped(Node):
    """`KTableRepartitionMap` and `KTableAggregate`: rows of a table by another key, counted, and summed up by a column.

    A change within a group is one update; a move takes the row from its old group first. A group that has lost its last
    row is deleted [HW].
    """

    def __init__(self, group: Callable[[Any], Key], number: Callable[[Any], int | None]) -> None:
        super().__init__()
        self._group, self._number = group, number
        self._rows: dict[Key, tuple[int, int, int, int]] = {}

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        for group, old, new in _parted(self._group, value):
            self._change(group, old, new, time, headers)

    def _change(self, group: Key, old: Any, new: Any, time: int, headers: Headers) -> None:
        before = self._rows.get(group)
        count, known, total, latest = (0, 0, 0, time) if before is None else before
        for row, sign in ((old if before is not None else None, -1), (new, 1)):
            number = None if row is None else self._number(row)
            count += 0 if row is None else sign
            known += 0 if number is None else sign
            total += sign * (number or 0)
        made = count, known, total, max(latest, time)
        latest = made[3]
        if count:
            self._rows[group] = made
        else:
            self._rows.pop(group, None)
        self.send(group, Change(_row(made), None if before is None else _row(before)), latest, headers)


class RegroupedBy(Node):
    """`KTableRepartitionMap` and `KTableAggregate` with an adder and a subtractor, as Kafka Streams has them."""

    def __init__(self, group: Callable[[Any], Key], aggregate: Any) -> None:
        super().__init__()
        self._group, self._aggregate = group, aggregate
        self._rows: dict[Key, tuple[Any, int]] = {}

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        for group, old, new in _parted(self._group, value):
            self._change(group, old, new, time, headers)

    def _change(self, group: Key, old: Any, new: Any, time: int, headers: Headers) -> None:
        before = self._rows.pop(group, None)
        state, latest = (None, time) if before is None else (before[0], max(time, before[1]))
        if old is not None and state is not None:
            state = self._aggregate.subtract(state, group, old)
        if new is not None:
            state = self._aggregate.add(self._aggregate.initial() if state is None else state, group, new)
        if state is not None:
            self._rows[group] = state, latest
        row = self._aggregate.row
        self.send(group, Change(row(state), None if before is None else row(before[0])), latest, headers)


def _parted(group: Callable[[Any], Key], change: Change) -> Iterator[tuple[Key, Any, Any]]:
    """The change of a row as those of its groups: one, if the group stays; else first that of the old one."""
    old, new = (None if row is None else group(row) for row in (change.old, change.new))
    if old is not None and old == new:
        yield old, change.old, change.new
        return
    if old is not None:
        yield old, change.old, None
    if new is not None:
        yield new, None, change.new


def _row(state: tuple[int, int, int, int]) -> Value:
    count, known, total, _ = state
    return {"rows": count, "total": total if known else None} if count else None


class Looked(Node):
    """`KStreamKTableJoin`, left: a stream with one column more, that of the row of its key in `table`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.table = Written()

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        if value is None:
            self.dropped["null_value"] += 1
            return
        row = next((each[1] for each in reversed(self.table.records) if each[0] == key), None)
        found = None if key is None or row is None else row["v"]
        self.send(key, {**value, self._name: found}, time, headers)
