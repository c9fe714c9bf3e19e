"""Steps as Kafka Streams 4.1 does them, one record after another: each forwards to its children, depth first.

A table has no rows but those of the steps that store them: `get` looks through all others, as a value getter does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any] | None
Change = Callable[[str, dict[str, Any]], Row]


@dataclass(frozen=True)
class Event:
    """A record, or a change of a table with the row of before (`old`)."""

    key: str | None
    new: Row
    old: Row
    time: int


@dataclass
class Step:
    """`children`: what each gets, in the order of declaration."""

    children: list[Callable[[Event], None]] = field(default_factory=list)

    def forward(self, event: Event) -> None:
        for child in self.children:
            child(event)

    def then(self, *children: Callable[[Event], None]) -> None:
        self.children += children


@dataclass
class Source(Step):
    """A topic's records go on as they are."""

    take = Step.forward


@dataclass
class Sink(Step):
    written: list[tuple[Any, ...]] = field(default_factory=list)

    def take(self, event: Event) -> None:
        self.written.append((event.key, event.new, event.time))


@dataclass
class Stored(Step):
    """A table that keeps its rows: the last record of each key, or what `add` makes of it and the row."""

    dropped: Counter[str] = field(default_factory=Counter)
    add: Callable[[Row, dict[str, Any]], Row] | None = None
    rows: dict[str, tuple[Row, int]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        if event.key is None or (self.add and event.new is None):
            self.dropped["null_key" if event.key is None else "null_value"] += 1
            return
        old, old_time = self.rows.pop(event.key, (None, -1))
        new, time = event.new, event.time
        if self.add and new is not None:
            new, time = self.add(old, new), max(time, old_time)
        if new is not None:
            self.rows[event.key] = (new, time)
        self.forward(Event(event.key, new, old, time))

    def get(self, key: str) -> tuple[Row, int] | None:
        return self.rows.get(key)


@dataclass
class RowByRow(Step):
    """A filter or a select of a table: `change` gives None for a row that is not there."""

    parent: Any = None
    change: Change = lambda key, row: row

    def take(self, event: Event) -> None:
        new, old = (None if row is None else self.change(event.key or "", row) for row in (event.new, event.old))
        if new is not None or old is not None or not self.filters:
            self.forward(replace(event, new=new, old=old))

    filters: bool = False

    def get(self, key: str) -> tuple[Row, int] | None:
        found = self.parent.get(key)
        row = None if found is None else self.change(key, found[0])
        return None if row is None else (row, found[1])


@dataclass
class TableJoin(Step):
    """Kafka's joins of two tables. Where it is not Kafka's (`docs/architecture.md`): the old row is the one that went
    on last, and so is the time of a row that has not changed since; an inner join deletes what both sides lose at once.
    """

    left: Any = None
    right: Any = None
    how: str = "inner"
    given: dict[str, tuple[Row, int]] = field(default_factory=dict)

    def take_left(self, event: Event) -> None:
        self._take(event, self.right.get(event.key), self.how != "inner", lambda mine, other: (mine, other))

    def take_right(self, event: Event) -> None:
        self._take(event, self.left.get(event.key), self.how == "outer", lambda mine, other: (other, mine))

    def _take(self, event: Event, met: Any, alone: bool, sides: Any) -> None:
        key = event.key or ""
        lost = self.how == "inner" and event.new is None and key in self.given
        if met is None and not lost and not (alone and (event.new is not None or event.old is not None)):
            return
        time = event.time if met is None else max(event.time, met[1])
        row = self._row(*sides(event.new, met and met[0]))
        old, _ = self.given.pop(key, (None, 0))
        if row is not None:
            self.given[key] = (row, time)
        self.forward(Event(key, row, old, time))

    def _row(self, left: Row, right: Row) -> Row:
        here = {"inner": left and right, "left": left, "outer": left or right}[self.how]
        if here is None:
            return None
        return {"n": (left or {}).get("n"), "s": f"{(left or {}).get('s', '-')}{(right or {}).get('s', '-')}"}

    def get(self, key: str) -> tuple[Row, int] | None:
        left, right = self.left.get(key), self.right.get(key)
        row = self._row(left and left[0], right and right[0])
        given = self.given.get(key)
        if row is None or given is None or given[0] != row:
            return None if row is None else (row, max(side[1] for side in (left, right) if side))
        return given


@dataclass
class Lookup(Step):
    """A stream's join with a table."""

    table: Any = None
    how: str = "inner"
    dropped: Counter[str] = field(default_factory=Counter)

    def take(self, event: Event) -> None:
        if event.new is None or (event.key is None and self.how == "inner"):
            self.dropped["null_value" if event.new is None else "null_key"] += 1
            return
        found = None if event.key is None else self.table.get(event.key)
        if found is not None or self.how == "left":
            row = {"n": event.new["n"], "s": f"{event.new['s']}{found[0]['s'] if found else '-'}"}
            self.forward(replace(event, new=row))
