"""Who subscribes to a row: the store of subscriptions, and those that come and go during an epoch.

A row of the store is found by the foreign key and then the subscriber's key, and has the hash of the row that has
asked. So the subscriptions to one row lie together, in the order of the subscribers' keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....records.arrays import Bools, Int64s, to_numpy
from ....state.codec import RowCodec
from ... import declarations
from ...keyed.codes import by_key, bytes_of, group_codes, last_rows
from ...task_epoch import EpochStore

_CODEC = RowCodec({declarations.HASH: pa.binary()})

_BEHIND = b"\x02"
"""Sorts after every marker with which a column of a key begins."""

_TOGETHER = 16_384
"""Subscribers that are read at once: of a row that millions refer to, never all are in memory."""


@dataclass(frozen=True)
class Asked:
    """Subscriptions of an epoch, in order. `keys`: encoded foreign keys, null for null ones; `subscribers`: encoded
    keys of those who have sent them. `stays`: which are to be kept; the others end one. `places`: in the order of
    processing, in which changes have places, too.
    """

    keys: pa.BinaryArray
    subscribers: pa.BinaryArray
    hashes: pa.BinaryArray
    stays: Bools
    timestamps: Int64s
    places: Int64s


@dataclass(frozen=True)
class Subscribers:
    """Some subscribers of a row, by key bytes. `keys`: encoded; `hashes`: of the rows that have asked."""

    keys: pa.BinaryArray
    hashes: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.keys)


@dataclass
class _New:
    """What an epoch has asked of a row, up to a place. `waiting`: numbers of what comes later, the next one last.

    `there`: subscriber -> the hash, or None of one whose subscription has ended.
    """

    waiting: list[int] = field(default_factory=list)
    there: dict[bytes, bytes | None] = field(default_factory=dict)


class Subscriptions:
    """The subscriptions to the rows of one task, during an epoch. `changed`: the encoded keys of rows that change."""

    def __init__(self, store: EpochStore, asked: Asked, changed: pa.BinaryArray) -> None:
        self._store = store
        self._asked = asked
        self._new: dict[bytes, _New] = {key: _New() for key in bytes_of(changed)}
        for number in reversed(np.flatnonzero(to_numpy(pc.is_in(asked.keys, value_set=changed))).tolist()):
            self._new[asked.keys[number].as_py()].waiting.append(number)

    def at(self, key: bytes, place: int) -> Iterator[Subscribers]:
        """Who subscribes to a row that changes at a place, some at a time. Changes come in the order of places."""
        new = self._new[key]
        while new.waiting and self._asked.places[new.waiting[-1]] < place:
            number = new.waiting.pop()
            stays = self._asked.stays[number]
            new.there[self._asked.subscribers[number].as_py()] = self._asked.hashes[number].as_py() if stays else None
        ahead = sorted(new.there, reverse=True)
        rows = self._store.range(key, key + _BEHIND)
        while some := list(islice(rows, _TOGETHER)):
            subscribers = [at[len(key) :] for at, _ in some]
            (hashes,), _ = _CODEC.decode([value for _, value in some])
            if ahead and ahead[-1] <= subscribers[-1]:
                found = dict(zip(subscribers, hashes.to_pylist(), strict=True))
                while ahead and ahead[-1] <= subscribers[-1]:
                    subscriber = ahead.pop()
                    found[subscriber] = new.there[subscriber]
                yield _there(found)
            else:
                yield Subscribers(pa.array(subscribers, pa.binary()), hashes)
        yield _there({subscriber: new.there[subscriber] for subscriber in ahead})

    def put(self) -> None:
        """Keep the subscriptions of the epoch, and remove those that end."""
        asked = self._asked
        rows = np.flatnonzero(to_numpy(asked.keys.is_valid()))
        keys = pc.binary_join_element_wise(asked.keys, asked.subscribers, b"").take(pa.array(rows))
        code, first = group_codes(keys)
        code, first, ordered = by_key(code, first, keys.take(pa.array(first)))
        numbers = rows[last_rows(code, len(first))]
        encoded = _CODEC.encode([asked.hashes.take(pa.array(numbers))], asked.timestamps[numbers])
        stays = asked.stays[numbers].tolist()
        values = [value if kept else None for value, kept in zip(encoded, stays, strict=True)]
        self._store.put_many(bytes_of(ordered), values, asked.timestamps[numbers])


def _there(found: Mapping[bytes, bytes | None]) -> Subscribers:
    """Those who are there, by key bytes."""
    there = sorted((subscriber, row) for subscriber, row in found.items() if row is not None)
    keys, hashes = zip(*there, strict=True) if there else ((), ())
    return Subscribers(pa.array(keys, pa.binary()), pa.array(hashes, pa.binary()))
