"""Processors of the measured project, whose text becomes `functions/counting.py` there: counts by key, in Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater import Record


class Rows:
    """One record after another: the number of its key's records up to each."""

    def init(self, context: Any) -> None:
        """Take the store."""
        self.context = context
        self.counts = context.store("counts")

    def process(self, record: Record) -> None:
        """Count one."""
        before = self.counts.get(record.key)
        row = {"n": 1 if before is None else before.n + 1}
        self.counts.put(record.key, row)
        self.context.forward(Record(record.key, row, record.timestamp))


class Batches:
    """An epoch's records at once: the number of each key's records up to its last one."""

    def init(self, context: Any) -> None:
        """Take the store."""
        self.counts = context.store("counts")

    def process_batch(self, batch: pa.RecordBatch) -> pa.Table:
        """Count all. Each result comes from the last record of its key."""
        rows = pa.table({"k": batch["k"], "_row": pa.array(range(len(batch)), pa.int64())})
        found = rows.group_by("k").aggregate([("_row", "count"), ("_row", "max")]).sort_by("_row_max")
        keys = found.select(["k"])
        n = pc.add(found["_row_count"], self.counts.get_many(keys)["n"].fill_null(0))
        self.counts.put_many(keys.append_column("n", n))
        return keys.append_column("n", n).append_column("_row", found["_row_max"])
