"""Processors with stores of each type, of which two share one."""

from __future__ import annotations

from typing import Any

from headwater import Record

STAY = 3_000


class Watching:
    """Says of each view what the stores have of its visitor, and now and then what they have of all."""

    def init(self, context: Any) -> None:
        self.context = context
        self.seen, self.lately, self.stays = (context.store(name) for name in ("seen", "lately", "stays"))
        context.schedule("4s", "stream_time", self.look)

    def process(self, record: Any) -> None:
        key, time = record.key, record.timestamp
        row = self.seen.get(key)
        self.seen.put(key, {"n": 1 + (row.n if row else 0)})
        start = time - time % 1_000
        same = self.lately.fetch(key, start)
        self.lately.put(key, {"n": 1 + (same.n if same else 0)}, start)
        began, ended, n = time, time, 1
        for first, last, stay in list(self.stays.find_sessions(key, time - STAY, time + STAY)):
            began, ended, n = min(began, first), max(ended, last), n + stay.n
            self.stays.remove(key, first, last)
        self.stays.put(key, {"n": n}, began, ended)
        windows = [(at, each.n) for at, each in self.lately.fetch(key, time - 9_999, time)]
        self.context.forward(record._replace(value={"text": f"{row and row.n} {windows} {began} {n}"}))

    def look(self, time: int) -> None:
        for key, first, last, stay in list(self.stays.fetch_all(0, time - STAY - 1)):
            self.stays.remove(key, first, last)
            self.context.forward(Record(key, {"text": f"stayed {first} {last} {stay.n}"}, time))
        for key, row in list(self.seen.all()):
            if row.n >= 5:
                self.seen.delete(key)


class Asking:
    """Says of each click how many views its visitor has had, and counts those down."""

    def init(self, context: Any) -> None:
        self.context, self.seen = context, context.store("seen")

    def process(self, record: Any) -> None:
        row = self.seen.get(record.key)
        if row is not None:
            self.seen.put(record.key, {"n": row.n - 1} if row.n > 1 else None)
        self.context.forward(record._replace(value={"text": f"{record.value and record.value.ad} {row and row.n}"}))
