"""Which records a topic in Kafka does not take. One of them would end the transaction of all others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FRAME_BYTES, _HEADER_FRAME_BYTES = 100, 10
"""At least the bytes that a batch of one record adds to its key and value, and to name and value of each header."""

_LATEST = 2**63 - 1
"""Of topics without a limit, and of brokers before 3.6, which do not have the setting."""


@dataclass(frozen=True)
class Limits:
    """What a topic takes. `bytes_`: of a batch of records (`max.message.bytes`); `own`: what the client takes
    (`message.max.bytes`), None: no less.

    `after_ms`: how far in the future the time of a record may be, ms. `needs_keys`: whether it is compacted.
    """

    bytes_: int
    own: int | None = None
    after_ms: int = _LATEST
    needs_keys: bool = False

    @classmethod
    def of(cls, topic: Mapping[str, str], client: Mapping[str, Any]) -> Limits:
        """From the settings of a topic, with the defaults of its cluster, and those of the client."""
        own = client.get("message.max.bytes")
        broker_sets_time = topic.get("message.timestamp.type") == "LogAppendTime"
        after = _LATEST if broker_sets_time else int(topic.get("message.timestamp.after.max.ms", _LATEST))
        needs_keys = "compact" in topic.get("cleanup.policy", "")
        return cls(int(topic["max.message.bytes"]), None if own is None else int(own), after, needs_keys)

    @property
    def by_setting(self) -> dict[str, int]:
        """Setting -> bytes that it allows."""
        known = {"max.message.bytes": self.bytes_}
        return known if self.own is None else {**known, "message.max.bytes": self.own}

    def refused(self, batch: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        """(Row, why) of the records that the topic does not take. `batch`: with the columns of `PRODUCED`."""
        sizes, most = sizes_of(batch), min(self.by_setting.values())
        known = " and ".join(f"{name} is {limit:,}" for name, limit in self.by_setting.items())
        for row in np.flatnonzero(sizes > most).tolist():
            yield row, f"it has {int(sizes[row]):,} bytes in Kafka: {known}"
        if self.after_ms < _LATEST:
            latest = time.time_ns() // 1_000_000 + self.after_ms
            times = batch["timestamp"].to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(times > latest).tolist():
                ahead = (int(times[row]) - latest + self.after_ms) / 3_600_000
                yield row, f"its time is {ahead:,.1f} h ahead: message.timestamp.after.max.ms is {self.after_ms:,}"
        if self.needs_keys:
            for row in np.flatnonzero(batch["key"].is_null()).tolist():
                yield row, "it has no key, and the topic in Kafka is compacted (cleanup.policy)"


def sizes_of(batch: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """At least the bytes of each record in a batch of its own, without compression."""
    sizes = np.full(len(batch), FRAME_BYTES, np.int64)
    for name in ("key", "value"):
        sizes += _lengths(batch[name])
    headers = batch["headers"]
    if headers.null_count < len(headers):
        counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
        flat = headers.flatten()
        lengths = _lengths(flat.field("name")) + _lengths(flat.field("value"))
        np.add.at(sizes, np.repeat(np.arange(len(batch)), counts), lengths)
        sizes += counts * _HEADER_FRAME_BYTES
    return sizes


def _lengths(column: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(pc.fill_null(pc.binary_length(column), 0))
