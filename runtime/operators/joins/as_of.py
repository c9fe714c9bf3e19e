"""When a join sees what a change of a table has come to behind other steps.

Kafka Streams keeps rows where they are stored, and looks through filters, selects and joins of tables: what these have
made of a row is another one as soon as the stored row is. Here each side of a join has a store of its own, which
changes on the way. So what a change comes to is seen from the moment of the change on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..rows import Rows, path_order


def as_of(rows: Rows, bases: Iterable[Rows]) -> Rows:
    """The same rows, those that come from a change of one of `bases` with the path of that change.

    `bases`: changes of tables, on edges that come before all others that are made of the table (the first of a fork).
    """
    for base in bases:
        rows = _as_of(rows, base)
    return rows


def _as_of(rows: Rows, base: Rows) -> Rows:
    if not len(rows) or not len(base):
        return rows
    # All that a change becomes has the path of the change before it was forked, and comes behind the first copy.
    forked = len(base.path) - 1
    order = path_order([base, rows])
    latest = np.maximum.accumulate(np.where(order < len(base), order, -1))
    before = np.empty(len(order), np.int64)
    before[order] = latest
    before = before[len(base) :]
    comes = before >= 0
    for mine, its in zip(rows.path[:forked], base.path[:forked], strict=True):
        comes &= mine == its[before]
    path = [
        np.where(comes, base.path[level][before] if level < len(base.path) else -1, mine)
        for level, mine in enumerate(rows.path)
    ]
    return replace(rows, path=tuple(path))
