"""The rows of buffers for queries: the changes that wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..operators.suppress.entries import ChangeCodec, decoded_keys, waiting_key, window_ends
from ..topology import Store
from .rows import FoundRows

Encoded = tuple[bytes, bytes]


def waiting_rows(store: Store, key: bytes, value: bytes) -> Iterator[Encoded]:
    """The encoded key and the row of the change that a stored row holds; none where it holds no change."""
    found = waiting_key(store, key)
    if found is not None:
        yield found, value


def waiting_changes(store: Store, batch: Sequence[Encoded]) -> FoundRows:
    """Changes with their columns. Those of a deletion are null."""
    key = decoded_keys(store, pa.array([key for key, _ in batch], pa.binary()))
    times = window_ends(key) if store.type == "window_changes" else None
    changes = ChangeCodec(store).decode([row for _, row in batch], times)
    return FoundRows(key, changes.values, changes.timestamp)
