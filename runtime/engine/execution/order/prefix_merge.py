"""Merges sorted inputs that are still growing: which records are safe to take, and in which order.

This module knows keys, ranks and bounds, not their meaning. Lanes are merged by the writer's stream time, partitions by
the timestamps of their heads, both by the same rule. Records are taken by (key, rank of the input, place in the input).
A record is safe once no input can still yield one that sorts before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ....records.arrays import Int64s


@dataclass(frozen=True)
class Chunk:
    """Some records of an input. `keys` never fall. `lane`, `position`: the place of each record in its partition.

    `offset`: of each record.
    """

    keys: Int64s
    batch: pa.RecordBatch
    lane: Int64s
    position: Int64s
    offset: Int64s

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, end: int) -> Chunk:
        """Records `start` to `end`, without a copy."""
        return Chunk(
            self.keys[start:end],
            self.batch.slice(start, end - start),
            self.lane[start:end],
            self.position[start:end],
            self.offset[start:end],
        )


def concat_chunks(chunks: Sequence[Chunk], order: Int64s | None = None) -> Chunk:
    """The records of all chunks (at least one), one chunk after the other, or in `order`."""
    if len(chunks) == 1 and order is None:
        return chunks[0]
    whole = Chunk(
        np.concatenate([chunk.keys for chunk in chunks]),
        pa.concat_batches([chunk.batch for chunk in chunks]),
        np.concatenate([chunk.lane for chunk in chunks]),
        np.concatenate([chunk.position for chunk in chunks]),
        np.concatenate([chunk.offset for chunk in chunks]),
    )
    if order is None:
        return whole
    places = (whole.lane[order], whole.position[order], whole.offset[order])
    return Chunk(whole.keys[order], whole.batch.take(pa.array(order)), *places)


class Feed(Protocol):
    """A sorted input. `rank` is unique among the inputs of a merge."""

    rank: int

    def pull(self) -> Chunk | None:
        """The next records, at least one; None when nothing more can be taken in this epoch."""

    def bound(self) -> int | None:
        """No record that was not pulled yet has a key below this. None if no record can come."""


@dataclass(frozen=True)
class Pulled:
    """The records that are safe now: the chunks of each input, and the permutation that sorts all of them."""

    runs: tuple[tuple[int, Chunk], ...]
    order: Int64s | None


class PrefixMerge:
    """Merges feeds lazily: it holds one chunk of each, and yields the prefixes that are safe."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self._feeds = feeds
        self._held: list[Chunk | None] = [None] * len(feeds)

    def pull(self) -> Pulled | None:
        """The next safe records; None when there are none in this epoch."""
        for index, feed in enumerate(self._feeds):
            if self._held[index] is None:
                self._held[index] = feed.pull()
        limits = sorted(
            (bound, feed.rank, index) for index, feed in enumerate(self._feeds) if (bound := feed.bound()) is not None
        )
        runs = []
        for index, chunk in enumerate(self._held):
            if chunk is not None and (safe := self._safe(index, chunk, limits)):
                runs.append((index, chunk.slice(0, safe)))
                self._held[index] = chunk.slice(safe, len(chunk)) if safe < len(chunk) else None
        return Pulled(tuple(runs), self._order(runs)) if runs else None

    @property
    def left(self) -> bool:
        """Whether there are records that are held, as they are not safe."""
        return any(chunk is not None for chunk in self._held)

    def holding(self) -> list[int]:
        """Once `pull` has yielded nothing: the feeds for whose records all the held ones wait."""
        held = zip(self._held, self._feeds, strict=True)
        first = min(((int(chunk.keys[0]), feed.rank) for chunk, feed in held if chunk is not None), default=None)
        return [
            index
            for index, (chunk, feed) in enumerate(zip(self._held, self._feeds, strict=True))
            if chunk is None and (bound := feed.bound()) is not None and (first is None or (bound, feed.rank) < first)
        ]

    def _safe(self, index: int, chunk: Chunk, limits: list[tuple[int, int, int]]) -> int:
        """How many of the chunk's records sort before all records that the other inputs may still yield."""
        # The two least bounds are enough: one of them is not this input's own.
        for bound, rank, other in limits[:2]:
            if other != index:
                # At an equal key the lower rank goes first, so these records are safe only for it.
                side = "right" if self._feeds[index].rank < rank else "left"
                return int(np.searchsorted(chunk.keys, bound, side=side))  # type: ignore[call-overload]
        return len(chunk)

    def _order(self, runs: list[tuple[int, Chunk]]) -> Int64s | None:
        if len(runs) == 1:
            return None
        ranks = np.concatenate([np.full(len(chunk), self._feeds[index].rank) for index, chunk in runs])
        # `lexsort` takes its last key first, and is stable: the place in the input decides last.
        return np.lexsort((ranks, np.concatenate([chunk.keys for _, chunk in runs])))


class RunningMaximum:
    """A feed keyed by the running maximum of its records' timestamps: heads hold back older records behind them."""

    def __init__(self, rank: int, merge: PrefixMerge, waits: bool) -> None:
        self.rank = rank
        self._merge = merge
        self._waits = waits
        self._maximum = -(2**63)
        self._run_out = False

    def pull(self) -> Chunk | None:
        """The next records, lanes merged."""
        pulled = self._merge.pull()
        if pulled is None:
            self._run_out = True
            return None
        chunk = concat_chunks([run for _, run in pulled.runs], pulled.order)
        keys = np.maximum.accumulate(chunk.batch.column("_timestamp").to_numpy(zero_copy_only=False))
        # The maximum continues from the chunk before.
        keys = np.maximum(keys, self._maximum)
        self._maximum = int(keys[-1])
        return replace(chunk, keys=keys)

    def bound(self) -> int | None:
        """The running maximum. None if the partition has run out and none of its writers may still write."""
        return None if self._run_out and not self._waits else self._maximum
