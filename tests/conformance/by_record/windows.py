"""Windowed aggregates, one record after another, after Kafka Streams' `KStreamWindowAggregate`,
`KStreamSessionWindowAggregate` and `KStreamSlidingWindowAggregate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from headwater.tests.conformance.by_record.nodes import Change, Headers, Key, Node, Value


class Aggregate(Protocol):
    """An aggregate: its state before the first record, with one more, of two sessions, and the row of a state.

    A row of None is no row.
    """

    def initial(self) -> Any: ...
    def add(self, state: Any, key: Key, value: Value) -> Any: ...
    def merge(self, first: Any, second: Any) -> Any: ...
    def row(self, state: Any) -> Value: ...


class Windowed(Node):
    """What windows have in common: rows in a store from which they expire, and rows that come out when they close.

    `kept`: how long a row is found. `on_close`: with final results only. `_rows`: (key, start, end) -> (state, time).
    """

    def __init__(self, aggregate: Aggregate, behind: int, kept: int, on_close: bool) -> None:
        super().__init__()
        self._aggregate, self._behind, self._kept, self._on_close = aggregate, behind, kept, on_close
        self._clock = self._store_clock = -1
        self._rows: dict[Any, tuple[Any, int]] = {}
        self._headers: Headers = {}

    def _put(self, at: Any, state: Any, time: int) -> None:
        """A row's new state, at the time that the store orders rows by, which is that of `_expires_by`."""
        old = self._rows.get(at)
        new = self._aggregate.row(state)
        self._store_clock = max(self._store_clock, self._expires_by(at))
        if new is None:
            self._rows.pop(at, None)
        else:
            self._rows[at] = state, time
        self._update(at, new, None if old is None else self._aggregate.row(old[0]), time)

    def _update(self, at: Any, new: Value, old: Value, time: int) -> None:
        if not self._on_close:
            self.send(at, Change(new, old), time, self._headers)

    def _expires_by(self, at: Any) -> int:
        return int(at[1])

    def _found(self, key: Key) -> Iterator[Any]:
        """The windows of a key that have not expired."""
        edge = self._store_clock - self._kept
        return (at for at in self._rows if at[0] == key and self._expires_by(at) > edge)

    def _advance(self, time: int, headers: Headers) -> int:
        """Begin with a record: let the clock go on. Returns what it was."""
        self._headers = headers
        before, self._clock = self._clock, max(self._clock, time)
        return before

    def _close(self, before: int) -> None:
        """Send what closes now: up to an end that is `behind` the clock. It comes out before it expires [HW]."""
        if not self._on_close:
            return
        closing = [at for at in self._rows if before - self._behind < at[2] <= self._clock - self._behind]
        for at in sorted(closing, key=self._order):
            state, time = self._rows[at]
            self.send(at, self._aggregate.row(state), time, self._headers)

    def _order(self, at: Any) -> Any:
        return at[1], at[0].encode()


class TimeWindows(Windowed):
    """Tumbling and hopping windows."""

    def __init__(
        self, size: int, advance: int, grace: int, aggregate: Aggregate, kept: int | None = None, on_close: bool = False
    ) -> None:
        super().__init__(aggregate, grace, size + grace if kept is None else kept, on_close)
        self._size, self._advance_by, self._grace = size, advance, grace

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        if key is None:
            self.dropped["null_key"] += 1
            return
        before = self._advance(time, headers)
        start = max(0, time - self._size + self._advance_by) // self._advance_by * self._advance_by
        while start <= time:
            at = key, start, start + self._size
            if at[2] > self._clock - self._grace:
                state, latest = self._rows.get(at, (self._aggregate.initial(), time))
                self._put(at, self._aggregate.add(state, key, value), max(latest, time))
            else:
                self.dropped["late"] += 1
            start += self._advance_by
        self._close(before)


class SessionWindows(Windowed):
    """Session windows."""

    def __init__(
        self, gap: int, grace: int, aggregate: Aggregate, kept: int | None = None, on_close: bool = False
    ) -> None:
        super().__init__(aggregate, gap + grace + 1, gap + grace if kept is None else kept, on_close)
        self._gap, self._grace = gap, grace

    def _expires_by(self, at: Any) -> int:
        return int(at[2])

    def _update(self, at: Any, new: Value, old: Value, time: int) -> None:
        if not self._on_close:
            self.send(at, Change(new, old), time, {})

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        if key is None:
            self.dropped["null_key"] += 1
            return
        before = self._advance(time, headers)
        near = [at for at in self._found(key) if at[2] >= time - self._gap and at[1] <= time + self._gap]
        near.sort(key=lambda at: (at[2], at[1]))
        start, end = min([time, *(at[1] for at in near)]), max([time, *(at[2] for at in near)])
        if end < self._clock - self._gap - self._grace:
            self.dropped["late"] += 1
        else:
            self._merge(near, (key, start, end), value)
        self._close(before)

    def _merge(self, near: list[Any], made: Any, value: Value) -> None:
        key, start, end = made
        state, *others = [self._rows[at][0] for at in near] or [self._aggregate.initial()]
        for other in others:
            state = self._aggregate.merge(state, other)
        if start != end:
            for at in near:
                row = self._aggregate.row(self._rows.pop(at)[0])
                self._update(at, None, row, at[2])
        self._put(made, self._aggregate.add(state, key, value), end)

    def _order(self, at: Any) -> Any:
        return at[2], at[1], at[0].encode()


class SlidingWindows(Windowed):
    """Sliding windows. Both ends belong to them."""

    def __init__(
        self, difference: int, grace: int, aggregate: Aggregate, kept: int | None = None, on_close: bool = False
    ) -> None:
        super().__init__(aggregate, grace + 1, 2 * difference + grace if kept is None else kept, on_close)
        self._difference, self._grace = difference, grace

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        if key is None or value is None:
            self.dropped["null_key" if key is None else "null_value"] += 1
            return
        before = self._advance(time, headers)
        if time + 1 + self._difference <= self._clock - self._grace:
            self.dropped["late"] += 1
        elif time < self._difference:
            self._early(key, value, time)
        else:
            self._reverse(key, value, time)
        self._close(before)

    def _early(self, key: Key, value: Value, time: int) -> None:
        """Before the difference: the left window is the one from 0 on."""
        windows = sorted(at for at in self._found(key) if at[1] <= time + 1)
        starts = {at[1] for at in windows}
        combined = next((at for at in windows if at[1] == 0), None)
        whole = None if combined is None else self._rows[combined]
        previous = whole[1] if whole is not None and whole[1] < time else None
        right = None
        for at in windows:
            if 0 < at[1] <= time:
                right = self._rows[at]
                self._add(at, right, value, time)
        if right is None and whole is not None and whole[1] > time:
            right = whole
        if time + 1 not in starts and right is not None and right[1] > time:
            self._put((key, time + 1, time + 1 + self._difference), *right)
        if previous is not None and previous + 1 not in starts:
            self._add((key, previous + 1, previous + 1 + self._difference), None, value, time)
        self._add((key, 0, self._difference), whole, value, time)

    def _reverse(self, key: Key, value: Value, time: int) -> None:
        """All others: from the latest window to the earliest."""
        low = max(0, time - 2 * self._difference)
        windows = sorted((at for at in self._found(key) if low <= at[1] <= time + 1), reverse=True)
        starts, left, right, previous = set(), None, None, None
        has_left = has_right = False
        for at in windows:
            starts.add(at[1])
            row = self._rows[at]
            if at[1] == time + 1:
                has_right = True
            elif at[2] > time:
                right = right or row
                self._add(at, row, value, time)
            elif at[2] == time:
                has_left = True
                self._add(at, row, value, time)
                if row[1] >= time:
                    return
                previous = row[1]
            else:
                left, previous = row, row[1]
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + self._difference >= time:
            self._add((key, previous + 1, previous + 1 + self._difference), None, value, time)
        if not has_left:
            reaches = previous is not None and previous >= time - self._difference
            self._add((key, time - self._difference, time), left if reaches else None, value, time)
        if not has_right and right is not None and right[1] > time:
            self._put((key, time + 1, time + 1 + self._difference), *right)

    def _add(self, at: Any, row: tuple[Any, int] | None, value: Value, time: int) -> None:
        if at[2] < self._clock - self._grace:
            self.dropped["late"] += 1
            return
        state, latest = row if row is not None else (self._aggregate.initial(), time)
        self._put(at, self._aggregate.add(state, at[0], value), max(latest, time))
