"""Tells which paid orders have waited too long for their parcel."""

from __future__ import annotations

from typing import Any

import headwater

HOUR_MS = 3_600_000


class LateShipment:
    """A processor: remembers when an order was paid until it is shipped, and looks every hour who waits too long.

    The hour is one of stream time, so that a run over old records raises the alerts that were due then. Parcels are
    remembered too, for the time that the store keeps them: an order may be paid again when it is on its way.
    """

    def __init__(self, hours: int) -> None:
        self._longest = hours * HOUR_MS

    def init(self, context: Any) -> None:
        self._context = context
        self._waiting, self._sent = context.store("waiting"), context.store("sent")
        context.schedule("1h", "stream_time", self._look)

    def process(self, record: Any) -> None:
        if record.value.event == "shipped":
            self._waiting.delete(record.key)
            self._sent.put(record.key, {"sent_ms": record.timestamp})
        elif self._sent.get(record.key) is None:
            self._waiting.put_if_absent(record.key, {"paid_ms": record.timestamp})

    def _look(self, now: int) -> None:
        for order, paid in self._waiting.all():
            if now - paid.paid_ms >= self._longest:
                self._waiting.delete(order)
                hours = (now - paid.paid_ms) // HOUR_MS
                self._context.forward(headwater.Record(order, {"hours_waiting": hours}, now))
