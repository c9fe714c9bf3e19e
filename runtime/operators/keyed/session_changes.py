"""Changes of sessions, or sliding windows, as changes of the segments that hold them (`records.session_segments`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...records.arrays import Int64s
from ...records.keys.session_segments import Session, packed, packed_each, segments_of


@dataclass(frozen=True)
class ChangedSessions:
    """Sessions that are there afterwards, with their encoded rows, or that are not (None). `code`: the number of the
    key. Times in ms. Of several changes of one the last counts.
    """

    code: Int64s
    start: Int64s
    end: Int64s
    row: Sequence[bytes | None]


@dataclass(frozen=True)
class ChangedSegments:
    """The segments with changes, by start and key: `code` of the key, `start` (ms). `begin`: where the changes of each
    one begin in `sessions`, and at last where they end. Those are by end and start in each, and differ.
    """

    code: Int64s
    start: Int64s
    begin: Int64s
    sessions: ChangedSessions

    @classmethod
    def of(cls, changes: ChangedSessions, length: int) -> ChangedSegments:
        """`length`: of segments, ms."""
        columns = (segments_of(changes.end, length), changes.code, changes.end, changes.start)
        order = np.lexsort(columns[::-1])
        differs = np.logical_or.reduce([np.diff(column[order], append=-1) != 0 for column in columns])
        order = order[differs]
        segment, code, end, start = (column[order] for column in columns)
        heads = np.flatnonzero((np.diff(segment, prepend=-1) != 0) | (np.diff(code, prepend=-1) != 0))
        row = list(map(changes.row.__getitem__, order.tolist()))
        begin = np.append(heads, len(order))
        return cls(code[heads], segment[heads], begin, ChangedSessions(code, start, end, row))

    def values(self, before: Sequence[Sequence[Session]]) -> tuple[list[bytes | None], Int64s]:
        """(The value of each segment, None for one that is empty now; its greatest end, or the one that it had.)

        `before`: the sessions of each one so far.
        """
        sessions, begin = self.sessions, self.begin
        values: list[bytes | None] = [*packed_each(sessions.start, sessions.end, sessions.row, begin)]
        last: Int64s = sessions.end[begin[1:] - 1]
        # Most segments are new, and none of their sessions is gone: that is all of them.
        others = np.fromiter(map(bool, before), np.bool_, len(before))
        if None in sessions.row:
            others |= np.logical_or.reduceat([row is None for row in sessions.row], begin[:-1])
        for place in np.flatnonzero(others).tolist():
            rows = {(end, start): row for end, start, row in before[place]} | self._changes(place)
            after = sorted((*bounds, row) for bounds, row in rows.items() if row is not None)
            values[place] = packed(after) if after else None
            if after or before[place]:
                last[place] = (after or before[place])[-1][0]
        return values, last

    def _changes(self, place: int) -> dict[tuple[int, int], bytes | None]:
        """The changes of a segment by end and start."""
        here = range(self.begin[place], self.begin[place + 1])
        sessions = self.sessions
        return {(int(sessions.end[at]), int(sessions.start[at])): sessions.row[at] for at in here}
