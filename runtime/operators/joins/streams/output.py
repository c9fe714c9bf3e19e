"""What a join gives, put together: by the event at which it comes out, what waited first, then what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....records.arrays import Int64s, typed
from ...rows import Rows
from .events import Events

NOBODY = -1
"""The place of a record that there is not."""

WAITED, NEW = 0, 1


@dataclass(frozen=True)
class Results:
    """Some results. `event`: at which each comes out; `turn`: WAITED or NEW.

    `this`, `other`: the places of the records in the columns of their sides, or NOBODY; `key`: the place of the key;
    `time`: ms.
    """

    turn: int
    event: Int64s
    this: Int64s
    other: Int64s
    key: Int64s
    time: Int64s


@dataclass(frozen=True)
class Columns:
    """The columns that results are taken from."""

    key: Mapping[str, pa.Array]
    this: Mapping[str, pa.Array]
    other: Mapping[str, pa.Array]


def rows_of(parts: Sequence[Results], columns: Columns, events: Events, trial: bool = False) -> Rows:
    """The rows of all results. Those of one part and one event are in order.

    `trial`: the `_order` of events is a number of their record. A row that had waited comes out with a record that need
    not be its own, so it has the number as `~number`, which is below zero: see `EpochPlan.numbered`.
    """
    event, this, other, key, time = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("event", "this", "other", "key", "time")
    )
    turn = np.repeat([part.turn for part in parts], [len(part.event) for part in parts])
    order = np.argsort(event * 2 + turn, kind="stable")
    event = event[order]
    place = np.arange(len(event))
    first = np.ones(len(event), np.bool_)
    first[1:] = event[1:] != event[:-1]
    level = place - np.maximum.accumulate(np.where(first, place, 0))
    rows = replace(events.rows.take(events.row[event]).deeper(level), timestamp=time[order])
    if trial:
        rows = replace(rows, order=np.where(turn[order] == WAITED, ~rows.order, rows.order))
    values = _taken(columns.this, this[order]) | _taken(columns.other, other[order])
    return rows.with_columns(_taken(columns.key, key[order]), values)


def _taken(columns: Mapping[str, pa.Array], places: Int64s) -> dict[str, pa.Array]:
    at = pa.array(places, mask=places == NOBODY)
    return {name: column.take(at) for name, column in columns.items()}


def stacked(parts: Sequence[pa.Array]) -> pa.Array:
    """Columns one after another, of the type of the first."""
    return pa.concat_arrays([typed(part, parts[0].type) for part in parts])
