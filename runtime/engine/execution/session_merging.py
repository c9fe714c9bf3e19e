"""Assigns records to sessions: finds the sessions that each record extends or merges, and late records.

A record and all sessions of its key that are at most a gap away become one session. The rules are Kafka Streams'
(`KStreamSessionWindowAggregate`). This module aggregates nothing: the result says what to combine.

Usually the records of a key come in the order of time. Array code handles all these keys at once. A key with any other
record is handled record by record.

Example: a gap of 5 ms; one key has a stored session from 2 to 6 ms; records come at 10, 20 and 15 ms.

    records = Records.of(code=[0, 0, 0], keys=1, timestamp=[10, 20, 15], clock=0)
    merge(records, Sessions(code=[0], start=[2], end=[6]), SessionWindow(gap_ms=5, grace_ms=100), retention=1000)
        late        [False, False, False]
        start       [2, 20, 2]                         of the session that each record leaves
        end         [10, 20, 20]                       the third record merges both sessions
        chain       [0, 1, 2]
        level       [0, 0, 1]                          chain 2 needs the results of the chains 0 and 1
        made_of     chains [0, 2, 2], versions [-1, 0, 1]
        removed     rows [0, 2, 2], versions [-1, 0, 1]
        replaced    [-1, 0, 1]

Version -1 is the stored session; the versions 0 and 1 are the sessions after the records 0 and 1.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

import numpy as np

from ...ir.windows import SessionWindow
from ...records.arrays import Bools, Int64s
from .keyed.groups import run_starts
from .keyed.session_store import Sessions

NO_ROW = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Merged:
    """The assignment of records to sessions. For an example see the module.

    A *version* is a session after one record. Its number is the row of the record. A stored session is a version too:
    its number is -1 - its index in the stored sessions. A *chain* is a run of records that extend the same session, one
    after another, without merging another session.

    `late`: whether each row is late. `start`, `end`: of the session after each row, ms. `chain`: of each row; -1 for a
    late row. `level`: of each chain, above the levels of the chains that it is made of. `made_of`: (chain, version) of
    all sessions from which a chain begins, sorted by chain, then by the order of merging. `removed`: (row, version) of
    all sessions that a row deletes, sorted by row and end. `replaced`: the versions that no longer exist: the removed
    ones, and those that a row updates without a change of bounds.
    """

    late: Bools
    start: Int64s
    end: Int64s
    chain: Int64s
    level: Int64s
    made_of: tuple[Int64s, Int64s]
    removed: tuple[Int64s, Int64s]
    replaced: Int64s


@dataclass(frozen=True)
class Records:
    """Records with a key, in path order. `code`: number of the key, 0 to `keys` - 1. `timestamp`: ms.

    `before`, `clock`: the step's clock before and after each record, ms.
    """

    code: Int64s
    keys: int
    timestamp: Int64s
    before: Int64s
    clock: Int64s

    @classmethod
    def of(cls, code: Int64s, keys: int, timestamp: Int64s, clock: int) -> Records:
        """Compute the clocks. `clock`: the step's clock before the first record, ms."""
        running = np.maximum.accumulate(np.concatenate([[clock], timestamp]))
        return cls(code, keys, timestamp, running[:-1], running[1:])


def merge(records: Records, stored: Sessions, window: SessionWindow, retention: int) -> Merged:
    """Assign records to sessions. `stored`: sorted by key, end and start.

    `retention`: the time after its end during which a session can be found, ms.
    """
    rules = _Rules(window.gap_ms, window.grace_ms, retention)
    count = len(records.code)
    found = _Found(np.zeros(count, np.bool_), np.empty(count, np.int64), np.empty(count, np.int64), np.full(count, -1))
    order = np.argsort(records.code, kind="stable")
    by_one = _in_order_of_time(records, stored, order, rules, found)
    if by_one.any():
        bounds = np.searchsorted(records.code[order], np.arange(records.keys + 1))
        held = np.searchsorted(stored.code, np.arange(records.keys + 1))
        for key in np.flatnonzero(by_one).tolist():
            rows = order[bounds[key] : bounds[key + 1]]
            _one_by_one(records, rows, stored, range(held[key], held[key + 1]), rules, found)
    return found.merged()


@dataclass(frozen=True)
class _Rules:
    gap: int
    grace: int
    retention: int


@dataclass
class _Found:
    """The result so far, in pieces. `merged` concatenates them. `chains`: the number of chains so far."""

    late: Bools
    start: Int64s
    end: Int64s
    chain: Int64s
    levels: list[Int64s] = field(default_factory=list)
    made_of: list[tuple[Int64s, Int64s]] = field(default_factory=list)
    removed: list[tuple[Int64s, Int64s]] = field(default_factory=list)
    replaced: list[Int64s] = field(default_factory=list)
    chains: int = 0

    def merged(self) -> Merged:
        by_row, version = _pairs(self.removed)
        order = np.argsort(by_row, kind="stable")
        replaced = np.concatenate([version, *self.replaced])
        return Merged(
            self.late,
            self.start,
            self.end,
            self.chain,
            np.concatenate([np.zeros(0, np.int64), *self.levels]),
            _pairs(self.made_of),
            (by_row[order], version[order]),
            replaced,
        )


def _pairs(parts: list[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *(each[0] for each in parts)]), np.concatenate([none, *(each[1] for each in parts)])


def _in_order_of_time(records: Records, stored: Sessions, order: Int64s, rules: _Rules, found: _Found) -> Bools:
    """Handle all keys with records in the order of time, behind their stored sessions.

    `order`: the permutation that sorts records by key, stable. Returns whether each key is left for `_one_by_one`.

    A record extends the session of the record before it, or for the first record of a key the last stored session, if
    it is at most a gap away. Otherwise it begins a session. `previous` has that version, `ends` the end of its session.
    """
    code, time = records.code[order], records.timestamp[order]
    first = run_starts(code)
    # The session that a record may extend: of the record before it or, for the first of a key, the last stored one.
    last_stored = np.searchsorted(stored.code, code[first], side="right") - 1
    has_stored = last_stored >= 0
    has_stored[has_stored] = stored.code[last_stored[has_stored]] == code[first][has_stored]
    previous = np.empty(len(order), np.int64)
    previous[1:] = order[:-1]
    previous[first] = np.where(has_stored, -1 - last_stored, NO_ROW)
    ends = np.full(len(order), -1 - rules.gap)
    ends[1:] = time[:-1]
    ends[first] = -1 - rules.gap
    ends[np.flatnonzero(first)[has_stored]] = stored.end[last_stored[has_stored]]
    extends = time - ends <= rules.gap
    hidden = extends & (ends <= records.before[order] - rules.retention)
    late = time < records.clock[order] - rules.gap - rules.grace
    # Left for `_one_by_one`: keys with an older record, a late one, or one that extends an expired session.
    other = np.zeros(records.keys, np.bool_)
    other[code[(time < ends) | hidden | late]] = True
    done = ~other[code]
    order, time, previous, extends = order[done], time[done], previous[done], extends[done]
    # A chain begins at a record that extends no session, or a stored one. `number`: the chain of each record.
    begins = ~extends | (previous < 0)
    number = np.cumsum(begins) - 1
    heads = np.flatnonzero(begins)
    of_stored = extends[heads]
    start = time[heads].copy()
    start[of_stored] = stored.start[-1 - previous[heads][of_stored]]
    found.start[order] = start[number]
    found.end[order] = time
    found.chain[order] = found.chains + number
    found.levels.append(np.zeros(len(heads), np.int64))
    found.made_of.append((found.chains + np.flatnonzero(of_stored), previous[heads][of_stored]))
    found.chains += len(heads)
    # A session of one moment is updated in place. Any other session is removed, even if its bounds stay the same.
    stays = start[number] == time
    removes = extends & ~stays
    found.removed.append((order[removes], previous[removes]))
    found.replaced.append(previous[extends & stays])
    return other


def _one_by_one(records: Records, rows: Int64s, stored: Sessions, held: range, rules: _Rules, found: _Found) -> None:
    """Handle the records of one key, in path order. `rows`: their rows. `held`: indexes of its stored sessions."""
    sessions = [(int(stored.end[place]), int(stored.start[place]), -1 - place) for place in held]
    levels: list[int] = []
    made_of: list[tuple[int, int]] = []
    removed: list[tuple[int, int]] = []
    for row in rows.tolist():
        time = int(records.timestamp[row])
        hidden = int(records.before[row]) - rules.retention
        # Sessions do not overlap, so those within a gap of the record are adjacent.
        first = last = bisect_left(sessions, (max(time - rules.gap, hidden + 1),))
        while last < len(sessions) and sessions[last][1] <= time + rules.gap:
            last += 1
        near = sessions[first:last]
        start = min([time, *(each[1] for each in near)])
        end = max([time, *(each[0] for each in near)])
        if end < int(records.clock[row]) - rules.gap - rules.grace:
            found.late[row] = True
            continue
        del sessions[first:last]
        insort(sessions, (end, start, row))
        found.start[row], found.end[row] = start, end
        if start < end or not near:
            removed += [(row, each[2]) for each in near]
        else:
            found.replaced.append(np.array([each[2] for each in near]))
        if len(near) == 1 and near[0][2] >= 0:
            found.chain[row] = found.chain[near[0][2]]
            continue
        found.chain[row] = found.chains + len(levels)
        made_of += [(int(found.chain[row]), each[2]) for each in near]
        levels.append(max([0, *(1 + levels[found.chain[each[2]] - found.chains] for each in near if each[2] >= 0)]))
    found.levels.append(np.array(levels, np.int64))
    found.made_of.append(_columns(made_of))
    found.removed.append(_columns(removed))
    found.chains += len(levels)


def _columns(pairs: list[tuple[int, int]]) -> tuple[Int64s, Int64s]:
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]
