"""Joins of two tables with windows, one record after another, after Kafka Streams' `KTableKTableInnerJoin`,
`KTableKTableLeftJoin`, `KTableKTableRightJoin` and `KTableKTableOuterJoin`.
"""

from __future__ import annotations

from typing import Any, Literal

from headwater.tests.conformance.by_record.nodes import Change, Headers, Key, Node, Value

How = Literal["inner", "left", "outer"]
HOWS: tuple[How, ...] = ("inner", "left", "outer")


class Kept(Node):
    """The rows of a table with windows where a join looks for them, with their times: for `kept` ms after the start of
    their window (`by_end`: its end), by the greatest time of the table's changes. A change replaces what is found [HW].
    """

    def __init__(self, kept: int, by_end: bool) -> None:
        super().__init__()
        self._kept, self._bound = kept, 2 if by_end else 1
        self._clock = -1
        self._rows: dict[Any, tuple[Value, int]] = {}

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        self._clock = max(self._clock, time)
        before = self.find(key)
        self._rows[key] = value.new, time
        self.send(key, Change(value.new, before and before[0]), time, headers)

    def find(self, at: Any) -> tuple[Value, int] | None:
        """The row of a key in a window and its time; None if there is none, or none any more."""
        found = self._rows.get(at)
        there = found is not None and found[0] is not None and at[self._bound] > self._clock - self._kept
        return found if there else None


class Joined(Node):
    """A join of two tables, with the other one's `total` as `column`. It takes the changes of this side, and `side`
    those of the other.
    """

    def __init__(self, how: How, this: Kept, other: Kept, column: str) -> None:
        super().__init__()
        self._how, self._this, self._other, self.column = how, this, other, column
        self.side = _OtherSide(self)

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        self.met(key, value, (time, headers), self._other.find(key), of_this=True)

    def of_other(self, key: Key, value: Change, at: tuple[int, Headers]) -> None:
        """A change of the other side."""
        self.met(key, value, at, self._this.find(key), of_this=False)

    def met(
        self, key: Key, change: Change, at: tuple[int, Headers], found: tuple[Value, int] | None, of_this: bool
    ) -> None:
        """A change of a side, and the row of the other one. What it replaces is seen with that row, too."""
        alone = self._how == "outer" or (self._how == "left" and of_this)
        if found is None and not (alone and (change.new is not None or change.old is not None)):
            return
        row, time = (None, at[0]) if found is None else found
        new, old = (self._row(each, row) if of_this else self._row(row, each) for each in (change.new, change.old))
        self.send(key, Change(new, old), max(time, at[0]), at[1])

    def _row(self, this: Value, other: Value) -> Value:
        if {"inner": this and other, "left": this, "outer": this or other}[self._how] is None:
            return None
        mine = this or dict.fromkeys(other or {})
        return {**mine, self.column: other and other["total"]}


class _OtherSide(Node):
    def __init__(self, join: Joined) -> None:
        super().__init__()
        self._join = join
        self.behind = join.behind

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        self._join.of_other(key, value, (time, headers))


class ByForeignKey(Node):
    """A join of a table with windows by a foreign key, `by`, with the other one's `v` as `theirs`: its last rows.

    A row of this side counts for `kept` ms after the start of its window (`by_end`: its end), by the greatest time of
    its table's changes. From then on its result stays as it is.
    """

    def __init__(self, how: How, kept: int, by_end: bool) -> None:
        super().__init__()
        self._how, self._kept, self._bound = how, kept, 2 if by_end else 1
        self._clock = -1
        self.rows: dict[Any, Any] = {}
        self._others: dict[Any, Value] = {}
        self.results: dict[Any, dict[str, Any]] = {}
        self.expired = 0

    def take(self, key: Any, value: Any, time: int, headers: Headers) -> None:
        self._clock = max(self._clock, time)
        edge = self._clock - self._kept
        gone = [each for each in self.rows if each[self._bound] <= edge]
        self.expired += len(gone)
        for each in gone:
            del self.rows[each]
        if key[self._bound] <= edge:
            return
        self.rows.pop(key, None)
        if value.new is not None:
            self.rows[key] = value.new
        self._join(key)

    def of_other(self, key: Key, value: Value) -> None:
        """A change of the other table."""
        self._others[key] = value
        for each, row in self.rows.items():
            if row["by"] == key:
                self._join(each)

    def _join(self, key: Any) -> None:
        row = self.rows.get(key)
        other = None if row is None or row["by"] is None else self._others.get(row["by"])
        if row is None or (other is None and self._how == "inner"):
            self.results.pop(key, None)
        else:
            self.results[key] = {**row, "theirs": other and other["v"]}
