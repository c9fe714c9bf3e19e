"""Who subscribes to a row: the store of subscriptions, and those that come and go during an epoch.

A row of the store is found by the foreign key and then the subscriber's key, and has the hash of the row that has
asked. So the subscriptions to one row lie together, in the order of the subscribers' keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....records.arrays import Bools, Int64s
from ....state.codec import RowCodec
from ... import declarations
from ...keyed.codes import group_codes, last_rows
from ...task_epoch import EpochStore

_CODEC = RowCodec({declarations.HASH: pa.binary()})

_BEHIND = b"\x02"
"""Sorts after every marker with which a column of a key begins."""

Subscribers = Mapping[bytes, bytes]
"""Encoded key -> hash of the row that has asked, by key bytes."""


@dataclass(frozen=True)
class Asked:
    """Subscriptions of an epoch, in order. `keys`: encoded foreign keys, None for null ones; `subscribers`: encoded
    keys of those who have sent them. `stays`: which are to be kept; the others end one. `places`: in the order of
    processing, in which changes have places, too.
    """

    keys: list[bytes | None]
    subscribers: list[bytes]
    hashes: list[bytes]
    stays: Bools
    timestamps: Int64s
    places: Int64s


class Subscriptions:
    """The subscriptions to the rows of one task, during an epoch."""

    def __init__(self, store: EpochStore, asked: Asked) -> None:
        self._store = store
        self._asked = asked

    def at_changes(self, keys: list[bytes], places: Int64s) -> Iterator[tuple[int, Subscribers]]:
        """For each change of a row its number, and who subscribes to the row then. `keys`: encoded, of the rows."""
        changes: dict[bytes, list[int]] = {}
        for number, key in enumerate(keys):
            changes.setdefault(key, []).append(number)
        asked: dict[bytes, list[int]] = {}
        for number, wanted in enumerate(self._asked.keys):
            if wanted is not None and wanted in changes:
                asked.setdefault(wanted, []).append(number)
        for key, numbers in changes.items():
            there = self._committed(key)
            waiting = asked.get(key, [])[::-1]
            for number in numbers:
                if waiting and self._asked.places[waiting[-1]] < places[number]:
                    while waiting and self._asked.places[waiting[-1]] < places[number]:
                        self._take(waiting.pop(), there)
                    there = dict(sorted(there.items()))
                yield number, there

    def put(self) -> None:
        """Keep the subscriptions of the epoch, and remove those that end."""
        asked = self._asked
        rows = [number for number, key in enumerate(asked.keys) if key is not None]
        keys = [(asked.keys[number] or b"") + asked.subscribers[number] for number in rows]
        code, first = group_codes(pa.array(keys, pa.binary()))
        last = last_rows(code, len(first)).tolist()
        chosen = sorted(last, key=keys.__getitem__)
        numbers = np.array([rows[each] for each in chosen], np.int64)
        hashes = pa.array([asked.hashes[number] for number in numbers.tolist()], pa.binary())
        encoded = _CODEC.encode([hashes], asked.timestamps[numbers])
        stays = asked.stays[numbers].tolist()
        values = [value if kept else None for value, kept in zip(encoded, stays, strict=True)]
        self._store.put_many([keys[each] for each in chosen], values, asked.timestamps[numbers])

    def _committed(self, key: bytes) -> dict[bytes, bytes]:
        """Who subscribes to a row when the epoch begins. Only the subscriptions to this row are read."""
        found = list(self._store.range(key, key + _BEHIND))
        (hashes,), _ = _CODEC.decode([value for _, value in found])
        return dict(zip((each[len(key) :] for each, _ in found), hashes.to_pylist(), strict=True))

    def _take(self, number: int, there: dict[bytes, bytes]) -> None:
        subscriber = self._asked.subscribers[number]
        if self._asked.stays[number]:
            there[subscriber] = self._asked.hashes[number]
        else:
            there.pop(subscriber, None)
