"""Events that come again."""

from typing import Any

from headwater import Record


class Dedupe:
    """Forwards an event once, unless it comes again `minutes` later."""

    def __init__(self, minutes: int) -> None:
        """`minutes`: for how long an event is known."""
        self.kept_ms = minutes * 60_000

    def init(self, context: Any) -> None:
        """Take the store."""
        self.context = context
        self.seen = context.store("seen")

    def process(self, record: Record) -> None:
        """Forward the event, if it is not known."""
        key = {"event_id": record.value.event_id}
        if self.seen.put_if_absent(key, {"expiry": record.timestamp + self.kept_ms}) is None:
            self.context.forward(Record(key, {"n": 1}, record.timestamp, record.headers))
