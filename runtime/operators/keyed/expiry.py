"""Which rows of tables with windows a lookup finds no more: by the table's clock at that moment.

Rows that have expired leave the disk later, by committed clocks. If a lookup went by what is there, its result would
depend on where epochs end.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ...records.arrays import Bools, Int64s, to_numpy
from ...topology import Store
from ..task_epoch import TaskEpoch


def clock_at(store: Store, order: Int64s, times: Int64s, epoch: TaskEpoch) -> Int64s:
    """The clock of a table (ms) when each row is processed, that row included: the greatest time of its changes.

    `times`: of the changes of the table, -1 of rows that are none. `order`: the permutation that sorts rows by path.
    """
    clock = np.empty(len(order), np.int64)
    clock[order] = np.maximum.accumulate(times[order])
    return np.maximum(clock, epoch.clock_before(store.name))


def expired(store: Store, key: Mapping[str, pa.Array], clock: Int64s) -> Bools:
    """Which keys a store has forgotten at these clocks (ms). `key`: the key columns, with those of the window."""
    kept = store.kept_ms
    if not store.is_windowed or kept is None:
        return np.zeros(len(clock), np.bool_)
    bound = key["window_end" if store.type == "session" else "window_start"]
    return to_numpy(bound.cast(pa.int64()).fill_null(0)) // 1000 <= clock - kept
