"""Generated records of a stream, and aggregates over all that a window has taken."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from headwater.tests.conformance.by_record.nodes import Headers, Key, Record, Value

COLUMNS = {"v": "bigint", "g": "string"}

VALUES = {
    "n": "count(*)",
    "some": "count(v)",
    "total": "sum(v)",
    "mean": "avg(v)",
    "least": "min(v)",
    "most": "max(v)",
    "one": "first(v)",
    "latest": "last(v)",
    "every": "collect_list(v)",
    "by": "max_by(g, v)",
}
"""The aggregates of which `Taken` gives the row."""


@dataclass
class Taken:
    """An aggregate that keeps the values it has taken, with the order in which they came: rows are made of these."""

    number: Any = field(default_factory=count)

    def initial(self) -> tuple[Any, ...]:
        """Nothing."""
        return ()

    def add(self, state: tuple[Any, ...], key: Key, value: Value) -> tuple[Any, ...]:
        """With one more."""
        return *state, (next(self.number), value)

    def merge(self, first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of both, in the order of processing."""
        return tuple(sorted((*first, *second), key=lambda each: each[0]))

    def row(self, state: tuple[Any, ...]) -> Value:
        """The row of `VALUES`."""
        values = [value or {"v": None, "g": None} for _, value in state]
        every = [value["v"] for value in values]
        known = [each for each in every if each is not None]
        greatest = max(known, default=None)
        return {
            "n": len(every),
            "some": len(known),
            "total": sum(known) if known else None,
            "mean": sum(known) / len(known) if known else None,
            "least": min(known, default=None),
            "most": greatest,
            "one": every[0] if every else None,
            "latest": every[-1] if every else None,
            "every": known,
            "by": max(
                (value["g"] for value in values if value["g"] and value["v"] == greatest is not None), default=None
            ),
        }


def facts(seed: int | str, records: int, near: Sequence[int], start: int = 0) -> list[Record]:
    """(key, value, timestamp, headers) with late ones, nulls, equal timestamps and jumps.

    `near`: how far two times are apart that are just within some bound, or just beyond it.
    """
    rng = random.Random(seed)
    steps = [0, 0, 0, 1, 1, 2, 3, *near]
    back = [0, 0, 0, 0, 1, 2, *near, *(each + other for each in near for other in near[:2])]
    keys = ["a", "b", "ab", "", "é"][: rng.randint(1, 5)]
    jumps, lateness, nulls = rng.choice([0, 0.05, 0.2]), rng.choice([0, 0.3, 0.7]), rng.choice([0, 0.1])
    time, made = start, list[Record]()
    for number in range(records):
        time += 10 * max(near) if rng.random() < jumps / 4 else rng.choice(steps)
        key = None if rng.random() < nulls else rng.choice(keys)
        value: Value = {"v": rng.choice([number, number, None]) if nulls else number, "g": rng.choice("xyz")}
        if rng.random() < nulls:
            value = None
        headers: Headers = {"number": str(number)} if rng.random() < 0.9 else {}
        made.append((key, value, max(0, time - rng.choice(back)) if rng.random() < lateness else time, headers))
    return made


def in_record_form(records: Sequence[Record], partition: int = 0) -> list[Mapping[str, Any]]:
    """The same as records of a topic with key `k` and the columns `v` and `g`."""
    return [
        {
            "partition": partition,
            "timestamp": time,
            "key": None if key is None else {"k": key},
            "value": value,
            "headers": dict(headers),
        }
        for key, value, time, headers in records
    ]
