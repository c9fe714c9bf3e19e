"""Records in order, whose windows are found for all keys at once, beside the same records taken one after another."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headwater.runtime.engine.execution.sliding.aggregate_sliding import find
from headwater.runtime.engine.execution.sliding.in_order import find_in_order, keys_in_order
from headwater.runtime.engine.execution.sliding.one_by_one import Records, Rules, StoredWindows, find_one_by_one, joined
from headwater.runtime.ir.windows import SlidingWindow

STEPS = ([0, 1], [0, 1, 1, 2, 3], [0, 0, 1, 5, 11], [1, 4, 20])


class Stream:
    """Epochs of records whose time goes on, a share of them late; and the windows that are stored."""

    def __init__(self, seed, difference, late, keys=3):
        self.rng = random.Random(seed)
        self.steps, self.late, self.keys = self.rng.choice(STEPS), late, keys
        grace = self.rng.choice([0, 1, 5, 15, 100])
        self.window = SlidingWindow(difference, grace)
        self.retention = self.window.kept_ms + self.rng.choice([0, 0, 30])
        self.time, self.clock, self.latest = self.rng.choice([difference, difference + 500]), -1, -1
        self.stored = {}

    def epoch(self, records):
        """(The key and time of each record, the windows that are stored of these keys.)"""
        drawn = []
        for _ in range(records):
            self.time += self.rng.choice(self.steps)
            back = self.rng.choice([1, 2, 5, 12, 30]) if self.rng.random() < self.late else 0
            drawn.append((self.rng.randrange(self.keys), max(0, self.time - back)))
        self.present = sorted({key for key, _ in drawn})
        code = np.array([self.present.index(key) for key, _ in drawn])
        held = sorted((self.present.index(k), s, t) for (k, s), t in self.stored.items() if k in self.present)
        columns = np.array(held, np.int64).reshape(-1, 3).T
        return code, np.array([time for _, time in drawn]), StoredWindows(*columns, self.latest)

    def go_on(self, found):
        """What the next epoch finds."""
        self.clock, self.latest = found.clock, found.latest
        for window, time in zip(found.window.tolist(), found.timestamp.tolist(), strict=True):
            self.stored[self.present[found.key[window]], int(found.start[window])] = time


def told(found, stored):
    """All updates with their windows and the contents of these, whatever the windows' numbers are."""
    begins = np.concatenate([[0], found.ends])
    updates = []
    for row, window, size, time in zip(found.row, found.window, found.size, found.timestamp, strict=True):
        base = found.base[window]
        of = None if base < 0 else (int(stored.code[base]), int(stored.start[base]))
        contents = found.contents[begins[window] : begins[window] + size].tolist()
        updates.append((int(row), int(found.key[window]), int(found.start[window]), of, contents, int(time)))
    return updates, found.late, found.clock, found.latest


@pytest.mark.parametrize("difference", [1, 2, 3, 7, 10, 40])
@pytest.mark.parametrize("late", [0, 0.02, 0.3])
def test_keys_at_once_do_what_one_record_after_another_does(difference, late):
    for seed in range(12):
        stream = Stream(seed, difference, late)
        rules = Rules(stream.window.difference_ms, stream.window.grace_ms, stream.retention)
        for records in (30, 1, 3, 30):
            code, time, stored = stream.epoch(records)
            each = Records.of(code, time, stream.clock)
            nobody, before = np.zeros(each.keys, np.bool_), np.full(records, stored.latest)
            parts = (
                find_in_order(each, nobody, stored, rules),
                find_one_by_one(each, ~nobody, stored, rules, before, len(stored.code)),
            )
            found = find(code, time, stored, stream.window, stream.retention, stream.clock)
            assert told(found, stored) == told(joined(each, stored, stream.clock, parts), stored)
            stream.go_on(found)


def test_only_keys_with_records_out_of_order_are_taken_one_by_one():
    nothing = np.zeros(0, np.int64)
    code, time = np.array([0, 1, 2, 1, 0, 2, 3]), np.array([100, 101, 102, 103, 104, 101, 89])
    each, rules = Records.of(code, time, -1), Rules(10, 14, 34)
    usual = keys_in_order(each, StoredWindows(nothing, nothing, nothing, -1), rules)
    assert usual.tolist() == [True, True, False, False]


def test_key_whose_window_holds_a_later_record_is_taken_one_by_one():
    stored = StoredWindows(np.array([0, 1]), np.array([90, 95]), np.array([100, 105]), 95)
    usual = keys_in_order(Records.of(np.array([0, 1]), np.array([104, 104]), 105), stored, Rules(10, 14, 34))
    assert usual.tolist() == [True, False]
