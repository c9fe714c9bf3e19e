"""Bicycles that somebody has carried to another station."""

from __future__ import annotations

from typing import Any

from headwater import Record


class Moved:
    """Forwards the trips that begin at another station than the one where the last trip of the bicycle has ended."""

    def init(self, context: Any) -> None:
        self.context, self.last = context, context.store("last_stations")

    def process(self, record: Any) -> None:
        if record.value is None:
            return
        row = self.last.get(record.key)
        if row is not None and row.station != record.value.origin:
            value = {"left_at": row.station, "found_at": record.value.origin}
            self.context.forward(Record(record.key, value, record.timestamp, record.headers))
        self.last.put(record.key, {"station": record.value.station})
