"""The operator of the `suppress` step: changes of a table wait in a buffer, and later ones take their place.

The rules are Kafka Streams' (`KTableSuppressProcessorSupplier`), but for the old row that goes on with a change: it is
the one that went on last, where Kafka sends the one before the last change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ....errors import HeadwaterError
from ...records.arrays import Int64s
from ...timed_parts import timed
from ...topology import Store
from .. import declarations
from ..keyed.groups import LOWEST
from ..node import Edges, RowFailedError
from ..rows import Rows, concat
from ..task_epoch import TaskEpoch
from .buffer import Buffer, Waiting
from .pool import Arriving, Pool, pooled
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
        arriving = Arriving.of(self.store, edges[self.flow])
        rows = arriving.rows
        bare = replace(rows, headers=None, columns={}, key=(), value=(), state=None, collapsed=False)
        places = concat([bare, *epoch.places_of_time()])
        if not len(places):
            edges[self.flow] = rows
            return
        clock = np.maximum(np.maximum.accumulate(places.timestamp), epoch.clock(self.store.name))
        epoch.advance(self.store.name, int(clock[-1]))
        buffer = Buffer(self.store, epoch.store(self.store))
        with timed("suppress"):
            scheduled = self._scheduled(buffer, arriving, places, clock - self.wait_ms)
        scheduled.store(buffer)
        edges[self.flow] = scheduled.going_on(self.store.type == "window_changes", self.old)

    def _scheduled(self, buffer: Buffer, arriving: Arriving, places: Rows, passed: Int64s) -> _Scheduled:
        """What becomes of changes that wait and that arrive. `passed`: by the `places` where they go on."""
        # Final results replace what waits without looking at it, unless they are counted.
        looked_up = len(arriving.first) if self.store.type == "changes" or self.max_records is not None else 0
        keys, times = arriving.keys.slice(0, looked_up), arriving.time[arriving.first[:looked_up]]

        def arrivals(oldest: int) -> tuple[Pool, Arrivals]:
            pool = pooled(self.store, buffer.read(keys, times, int(passed[-1]), oldest), arriving)
            earlier = np.full(pool.waiting, LOWEST)
            found = Arrivals(
                pool.code, len(pool.keys), pool.changes.time, np.concatenate([earlier, passed]), pool.waiting
            )
            return pool, found

        pool, found = arrivals(0)
        schedule, rows = unlimited(found), arriving.rows
        if self.max_records is None:
            buffer.note_count(None)
            return _Scheduled(pool, schedule, places)
        before = buffer.count()
        full = first_above(schedule.counts(found, before), self.max_records)
        if full is not None:
            if self.when_full == "fail":
                order = int(rows.order[full - pool.waiting])
                raise RowFailedError(order, BufferFullError(self.store, self.max_records))
            # So many of the oldest may go on before their time, and no others.
            pool, found = arrivals(before + len(rows) - self.max_records)
            schedule = limited(found, self.max_records, before)
        buffer.note_count(int(schedule.counts(found, before)[-1]))
        return _Scheduled(pool, schedule, places)


@dataclass(frozen=True)
class _Scheduled:
    """What becomes of the changes of a pool. `places`: of those that arrive, and where time passes without one."""

    pool: Pool
    schedule: Schedule
    places: Rows

    def store(self, buffer: Buffer) -> None:
        """Bring the buffer to where it is after the epoch."""
        first, last, pool = self.schedule.first, self.schedule.last, self.pool
        stays = self.schedule.stays
        gone = first[~stays & (first < pool.waiting)]
        buffer.take_away(pool.keys_of(gone), pool.changes.time[gone])
        put = np.flatnonzero(stays & (last >= pool.waiting))
        put = put[np.argsort(pool.code[first[put]])]
        kept = Waiting(pool.keys_of(first[put]), pool.entries(first[put], last[put]))
        buffer.keep(kept, np.flatnonzero(first[put] >= pool.waiting))

    def going_on(self, final: bool, old: bool) -> Rows:
        """The changes that go on, behind the change with which they do, oldest first, with the rows they replace.

        `final`: without deletions.
        """
        schedule, pool = self.schedule, self.pool
        chosen = ~schedule.stays
        if final:
            chosen &= pool.changes.exists[schedule.last]
        first, last = schedule.first[chosen], schedule.last[chosen]
        by = schedule.released[chosen]
        order = np.lexsort((pool.code[first], pool.changes.time[first], by))
        first, last, by = first[order], last[order], by[order] - pool.waiting
        number = np.arange(len(by)) - np.searchsorted(by, by)
        return pool.changed(self.places.take(by).deeper(number), first, last, old)
