"""The left rows of a join whose table has windows: which of them count, and which expire as its clock moves.

A row expires for the join once lookups do not find it any more: at the change that moves the table's clock so far.
From then on it neither changes nor asks, and it is in the store of expired rows until the last answer to it has come.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....records.kinds import Kind
from ....topology import Store
from ....windows import JoinWindow, SessionWindow
from ...closing.closed_rows import Closing, closed_rows
from ...keyed.expiry import expired
from ...rows import Rows, is_old
from ...task_epoch import TaskEpoch


def unexpired(store: Store, rows: Rows, epoch: TaskEpoch) -> Rows:
    """The changes of rows that the table has not forgotten at that moment, with the rows that they replace.

    `store`: the table's. `rows`: all of its changes.
    """
    old = is_old(rows.kind)
    times = np.where(old, -1, rows.timestamp)
    clock = np.maximum(np.maximum.accumulate(times), epoch.clock_before(store.name))
    gone = expired(store, rows.keys, clock)
    # A row that is replaced goes the way of its change, which is the next row.
    replaced = np.flatnonzero(old)
    gone[replaced] = gone[replaced + 1]
    return rows.filter(~gone)


def expiring(store: Store, rows: Rows, counting: Rows, epoch: TaskEpoch) -> Rows:
    """The rows that expire, as they are then, each at the place and the time of the change that moves the clock so far.

    `rows`: all changes of the table; `counting`: the `unexpired` ones. The clock of the store moves with them.
    """
    assert store.kept_ms is not None
    assert not isinstance(store.window, JoinWindow | None)
    length = 0 if isinstance(store.window, SessionWindow) else store.window.length_ms
    closing = Closing.of(store, _new(rows), store.kept_ms - length, epoch)
    gone, at = closed_rows(store, _new(counting), closing, epoch.store(store))
    if len(closing.clock):
        # Also where time passes without a record: what has expired then must not do so again.
        epoch.advance(store.name, int(closing.clock[-1]))
    return replace(gone, timestamp=closing.clock[at])


def _new(rows: Rows) -> Rows:
    return rows.filter(rows.kind <= Kind.VALUE)
