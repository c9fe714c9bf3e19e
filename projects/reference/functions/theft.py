"""Three signals of a lock that follow each other."""

from __future__ import annotations

from typing import Any

from headwater import Record


class Theft:
    """Forwards the times of `shaken`, `cut` and `moved`, if each is at most `minutes` after the one before.

    Other signals between them do not matter. Another `shaken` begins anew.
    """

    def __init__(self, minutes: int) -> None:
        self.most_ms = minutes * 60_000

    def init(self, context: Any) -> None:
        self.context, self.suspicions = context, context.store("suspicions")

    def process(self, record: Any) -> None:
        if record.value is None:
            return
        seen, now = self.suspicions.get(record.key), record.timestamp
        match record.value.signal:
            case "shaken":
                self.suspicions.put(record.key, {"shaken_ms": now, "cut_ms": None})
            case "cut" if seen and seen.cut_ms is None and now - seen.shaken_ms <= self.most_ms:
                self.suspicions.put(record.key, {"shaken_ms": seen.shaken_ms, "cut_ms": now})
            case "moved" if seen and seen.cut_ms is not None and now - seen.cut_ms <= self.most_ms:
                value = {"shaken_ms": seen.shaken_ms, "cut_ms": seen.cut_ms, "moved_ms": now}
                self.context.forward(Record(record.key, value, now, record.headers))
                self.suspicions.delete(record.key)
