"""Each event once, though its report may come twice."""

from __future__ import annotations

from typing import Any


class FirstOnly:
    """A processor: forwards the first record of each event, and forgets the event once its row has expired.

    Reports of one event have the same visitor, so the same task sees them all.
    """

    def init(self, context: Any) -> None:
        self._context = context
        self._seen = context.store("seen_events")

    def process(self, record: Any) -> None:
        row = {"seen_at": record.timestamp}
        if self._seen.put_if_absent({"event_id": record.value.event_id}, row) is None:
            self._context.forward(record)
