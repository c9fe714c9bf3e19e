"""Finds the sliding windows of records: which windows each record makes and updates, and from what they are made.

A key has a window that ends at each record (its left one), and one that starts right after each record (its right
one) where that holds a record. A new window begins with what another one has aggregated so far, so it misses what that
one refused. Nothing is aggregated here.

Records of a key that come in the order of time, none of them late, are the usual case, and are done for all keys at
once. Where a key has another record among them, its records are taken one by one.
"""

from __future__ import annotations

from ...records.arrays import Int64s
from ...windows import SlidingWindow
from .in_order import find_in_order, keys_in_order
from .one_by_one import find_one_by_one
from .updates import Records, Rules, StoredWindows, Updates, joined, latest_before


def find(
    code: Int64s, timestamps: Int64s, stored: StoredWindows, window: SlidingWindow, retention: int, clock: int
) -> Updates:
    """What the records do. `code`: the number of each one's key. `clock`: of the step, before them.

    `retention`: how long a window is found after its start, by the latest start of the store, ms.
    """
    records, rules = Records.of(code, timestamps, clock), Rules.of(window, retention)
    usual = keys_in_order(records, stored, rules)
    parts = [find_in_order(records, usual, stored, rules)]
    if not usual.all():
        first_new = max(len(stored.code), int(parts[0].number.max(initial=-1)) + 1)
        latest = latest_before(parts[0], len(code), stored.latest)
        parts.append(find_one_by_one(records, ~usual, stored, rules, latest, first_new))
    return joined(records, stored, clock, parts)
