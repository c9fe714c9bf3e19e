"""The records of the measurements: one million of 100,000 keys an epoch, in four partitions, the same for everyone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

PARTITIONS = 4
KEYS = 100_000
PER_EPOCH = 1_000_000
DISTINCT_EPOCHS = 8
"""Epochs made; a longer run takes them again in turn."""


def epoch(number: int, partition: int) -> pa.Table:
    """Columns k (string), v (bigint), ts (timestamp); a key stays in its partition. The same for the same numbers."""
    rows = PER_EPOCH // PARTITIONS
    rng = np.random.default_rng((number % DISTINCT_EPOCHS, partition))
    keys = rng.integers(0, KEYS // PARTITIONS, rows) * PARTITIONS + partition
    seconds = np.arange(rows) // 1000 + number * rows // 1000
    return pa.table(
        {
            "k": pa.array([f"k{key:08d}" for key in keys.tolist()]),
            "v": pa.array(rng.integers(0, 1000, rows)),
            "ts": pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC")),
        }
    )
