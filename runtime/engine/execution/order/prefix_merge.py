"""Merges sorted inputs that still grow, as far as their order is certain.

Records are ordered by (key, rank of the input, index in the input). A record is *safe* once no input can still yield a
record that sorts before it. The same merge serves lanes (keys: the writer's stream time) and partitions (keys: the
timestamps at their heads).

Example: two feeds, `keys` that are read, and a `bound` for the keys that are not.

    feed 0: rank 0, keys [10, 30, 50], bound 50
    feed 1: rank 1, keys [20, 30, 40], bound 40

    PrefixMerge([feed 0, feed 1]).pull()
        runs     (0, [10, 30]), (1, [20, 30, 40])
        order    [0, 2, 1, 3, 4]: 10, 20, 30 of feed 0, 30 of feed 1, 40

The 50 of feed 0 is not safe: feed 1 may still yield 40 to 49. It is held, and `holding()` is [1].
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
    """Consecutive records of an input. `keys` never fall. `lane`, `position`: of each record in its partition.

    All arrays have one entry for each record of `batch`.
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
        """The smallest key that a record not yet pulled may have. None: no record can come."""


@dataclass(frozen=True)
class Pulled:
    """Safe records. `runs`: (index of the feed, its records).

    `order`: the permutation that sorts the records of all runs, taken one run after another; None for a single run.
    """

    runs: tuple[tuple[int, Chunk], ...]
    order: Int64s | None


class PrefixMerge:
    """Merges feeds lazily: holds one chunk of each feed, and yields the safe prefix of each chunk."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self._feeds = feeds
        self._held: list[Chunk | None] = [None] * len(feeds)

    def pull(self) -> Pulled | None:
        """The next safe records; None if no record is safe in this epoch."""
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
        """Whether records are held back because they are not safe."""
        return any(chunk is not None for chunk in self._held)

    def holding(self) -> list[int]:
        """The indexes of the feeds that hold back the first held record. Call it after `pull` has returned None.

        Without a held record, these are all feeds that may still yield records.
        """
        held = zip(self._held, self._feeds, strict=True)
        first = min(((int(chunk.keys[0]), feed.rank) for chunk, feed in held if chunk is not None), default=None)
        return [
            index
            for index, (chunk, feed) in enumerate(zip(self._held, self._feeds, strict=True))
            if chunk is None and (bound := feed.bound()) is not None and (first is None or (bound, feed.rank) < first)
        ]

    def _safe(self, index: int, chunk: Chunk, limits: list[tuple[int, int, int]]) -> int:
        """The number of leading records that sort before all later records of other inputs. `limits`: sorted bounds."""
        # The two smallest bounds are enough: at least one of them is of another input.
        for bound, rank, other in limits[:2]:
            if other != index:
                # At an equal key the lower rank goes first, so only its records are safe at the bound itself.
                side = "right" if self._feeds[index].rank < rank else "left"
                return int(np.searchsorted(chunk.keys, bound, side=side))  # type: ignore[call-overload]
        return len(chunk)

    def _order(self, runs: list[tuple[int, Chunk]]) -> Int64s | None:
        if len(runs) == 1:
            return None
        ranks = np.concatenate([np.full(len(chunk), self._feeds[index].rank) for index, chunk in runs])
        # `lexsort` sorts by its last argument first, and is stable: the index in the input decides last.
        return np.lexsort((ranks, np.concatenate([chunk.keys for _, chunk in runs])))


class RunningMaximum:
    """A feed of one partition. Keys are the running maximum of timestamps: an older record follows those before it."""

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
        """The running maximum. None if the partition is exhausted and no writer may still write."""
        return None if self._run_out and not self._waits else self._maximum
