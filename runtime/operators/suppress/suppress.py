"""The operator of the `suppress` step: changes of a table wait in a buffer, and later ones take their place.

The rules are Kafka Streams' (`KTableSuppressProcessorSupplier`), but for the old row that goes on with a change: it is
the one that went on last, where Kafka sends the one before the last change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....errors import HeadwaterError
from ...records.arrays import Int64s
from ...records.key_order import last_in_order
from ...records.window_keys import window_keys
from ...timed_parts import timed
from ...topology import Store
from .. import declarations
from ..keyed.codes import by_key, group_codes
from ..keyed.groups import LOWEST
from ..node import Edges, RowFailedError
from ..rows import Rows, is_old
from ..task_epoch import TaskEpoch
from .buffer import Buffer, Waiting
from .entries import encoded_keys, window_ends
from .pool import Pool, pooled
from .schedule import Arrivals, Schedule, first_above, limited, unlimited


class BufferFullError(HeadwaterError):
    """More changes would wait than `max_records`, and `when_full` is `fail`."""

    def __init__(self, store: Store, most: int) -> None:
        shorter = "a shorter `grace`" if store.type == "window_changes" else "a shorter `for`, `when_full: emit`"
        super().__init__(
            f"the buffer {store.name} is full: {most:,} changes wait, and this one would be one more",
            f"give `suppress` a higher `max_records`, or {shorter}; nothing of this epoch is committed",
        )
        self.store = store.name
        self.most = most


@dataclass(frozen=True)
class Suppress(declarations.Suppress):
    """Holds changes back, see the declaration. It has a clock of its own: the greatest timestamp that has reached it.

    A change goes on when a later one finds its time passed, with its own timestamp and headers. Deletions go on too,
    but for those of windows whose rows nobody has seen.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError."""
        everything = edges[self.flow]
        rows = everything.filter(~is_old(everything.kind))
        if not len(rows):
            edges[self.flow] = rows
            return
        clock = np.maximum(np.maximum.accumulate(rows.timestamp), epoch.clock(self.store.name))
        epoch.advance(self.store.name, int(clock[-1]))
        buffer = Buffer(self.store, epoch.store(self.store))
        keys = encoded_keys(self.store, rows.keys)
        times = window_ends(rows.keys) if self.store.type == "window_changes" else rows.timestamp
        with timed("suppress"):
            scheduled = self._scheduled(buffer, everything, rows, keys, times, clock - self.wait_ms)
        scheduled.store(buffer)
        edges[self.flow] = scheduled.going_on(self.store.type == "window_changes", self.old)

    def _scheduled(
        self, buffer: Buffer, everything: Rows, rows: Rows, keys: pa.BinaryArray, times: Int64s, passed: Int64s
    ) -> _Scheduled:
        """What becomes of the changes that wait and of those that arrive."""
        _, first = group_codes(keys)
        # Final results replace what waits without looking at it, unless they are counted.
        looked_up = first if self.store.type == "changes" or self.max_records is not None else first[:0]
        asked = keys.take(pa.array(looked_up)), times[looked_up], int(passed[-1])

        def arrive(oldest: int) -> tuple[Pool, Arrivals]:
            pool = pooled(self.store, buffer.read(*asked, oldest), everything, rows, keys, times)
            return pool, _arrivals(pool, passed)

        pool, arrivals = arrive(0)
        schedule = unlimited(arrivals)
        if self.max_records is None:
            buffer.note_count(None)
            return _Scheduled(pool, arrivals, schedule, rows)
        before = buffer.count()
        full = first_above(schedule.counts(arrivals, before), self.max_records)
        if full is not None:
            if self.when_full == "fail":
                raise RowFailedError(
                    int(rows.order[full - pool.waiting]), BufferFullError(self.store, self.max_records)
                )
            # So many of the oldest may go on before their time, and no others.
            pool, arrivals = arrive(before + len(rows) - self.max_records)
            schedule = limited(arrivals, self.max_records, before)
        buffer.note_count(int(schedule.counts(arrivals, before)[-1]))
        return _Scheduled(pool, arrivals, schedule, rows)


def _arrivals(pool: Pool, passed: Int64s) -> Arrivals:
    code, first = group_codes(pool.keys)
    code, first, _ = by_key(code, first, pool.keys.take(pa.array(first)))
    before = np.full(pool.waiting, LOWEST)
    return Arrivals(code, len(first), pool.changes.time, np.concatenate([before, passed]), pool.waiting)


@dataclass(frozen=True)
class _Scheduled:
    """What becomes of the changes of a pool. `rows`: those that arrive."""

    pool: Pool
    arrivals: Arrivals
    schedule: Schedule
    rows: Rows

    def store(self, buffer: Buffer) -> None:
        """Bring the buffer to where it is after the epoch."""
        first, last, pool = self.schedule.first, self.schedule.last, self.pool
        stays = self.schedule.released == len(self.arrivals)
        gone = first[~stays & (first < pool.waiting)]
        buffer.take_away(pool.keys.take(pa.array(gone)), pool.changes.time[gone])
        put = np.flatnonzero(stays & (last >= pool.waiting))
        put = put[np.argsort(self.arrivals.code[first[put]])]
        kept = Waiting(pool.keys.take(pa.array(first[put])), pool.entries(first[put], last[put]))
        buffer.keep(kept, np.flatnonzero(first[put] >= pool.waiting))

    def going_on(self, final: bool, old: bool) -> Rows:
        """The changes that go on, behind the change with which they do, oldest first, with the rows they replace.

        `final`: without deletions.
        """
        schedule, pool = self.schedule, self.pool
        chosen = schedule.released < len(self.arrivals)
        if final:
            chosen &= pool.changes.exists[schedule.last]
        first, last = schedule.first[chosen], schedule.last[chosen]
        by = schedule.released[chosen]
        place = window_keys(by, window_keys(pool.changes.time[first], pool.keys.take(pa.array(first))))
        order = last_in_order(place)
        first, last, by = first[order], last[order], by[order] - pool.waiting
        number = np.arange(len(by)) - np.searchsorted(by, by)
        bare = replace(self.rows, headers=None, columns={}, key=(), value=(), state=None)
        at = bare.take(by).deeper(number)
        return pool.changed(at, first, last, old)
