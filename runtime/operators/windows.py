"""Finds the windows of each record, and which of them are still open for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..records.arrays import Bools, Int64s
from ..records.types import TIMESTAMP
from ..windows import Window


@dataclass(frozen=True)
class Windowed:
    """Pairs of a record and one of its windows, sorted by record and start.

    `number`: of the window; it starts at so many times the advance. `late`: the window is closed. `clock`: the step's
    clock after the last record.
    """

    record: Int64s
    number: Int64s
    late: Bools
    clock: int


def assign(timestamps: Int64s, window: Window, clock: int) -> Windowed:
    """The windows of records, in order of processing. `clock`: the step's clock before them.

    A record first moves the clock and is then compared with it. A window takes it if and only if end > clock - grace.
    """
    running = np.maximum(np.maximum.accumulate(timestamps), clock)
    last = timestamps // window.advance_ms
    # Windows start at 0 or later, as in Kafka Streams (`TimeWindows.windowsFor`).
    first = np.maximum(0, timestamps - window.size_ms + window.advance_ms) // window.advance_ms
    counts = last - first + 1
    clock = int(running[-1]) if len(running) else clock
    each = int(counts[0]) if len(counts) else 0
    record = np.repeat(np.arange(len(timestamps)), counts)
    if (counts == each).all():
        number = (first[:, None] + np.arange(each)).ravel()
    else:
        number = first[record] + np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Of a record in each window its last one is closed last, and its first one first.
    closed = running - window.grace_ms - window.size_ms
    if (first * window.advance_ms > closed).all():
        return Windowed(record, number, np.zeros(len(record), np.bool_), clock)
    return Windowed(record, number, number * window.advance_ms <= closed[record], clock)


def window_column(times: Int64s) -> pa.Array:
    """Times in ms as a timestamp column."""
    return pa.array(times * 1000).cast(TIMESTAMP)
