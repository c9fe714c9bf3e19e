"""Patterns of several records."""

from typing import Any

from headwater import Record


class Pattern:
    """The step a of a user, and then b."""

    def init(self, context: Any) -> None:
        """Take the store."""
        self.context = context
        self.progress = context.store("progress")

    def process(self, record: Record) -> None:
        """Keep an a, and forward a b with it, or without."""
        found = self.progress.get(record.key)
        if record.value.step == "a":
            self.progress.put(record.key, {"a_ms": record.timestamp, "b_ms": None})
        elif found:
            value = {"a_ms": found.a_ms, "b_ms": record.timestamp, "c_ms": 0}
            self.context.forward(Record(record.key, value, record.timestamp), "matched")
        else:
            value = {"a_ms": 0, "b_ms": record.timestamp}
            self.context.forward(Record(record.key, value, record.timestamp), "timed_out")
