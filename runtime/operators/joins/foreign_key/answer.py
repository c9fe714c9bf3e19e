"""The middle part of a join by a foreign key: subscriptions are kept beside the rows that they mean, and answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....records.arrays import Bools, Int64s, to_numpy
from ....records.keys.encoding import encode_keys
from ....records.keys.reading import decode_keys
from ....records.kinds import Kind
from ... import declarations
from ...keyed.codes import bytes_of
from ...node import Edges
from ...rows import Rows, interleave, path_order
from ...task_epoch import TaskEpoch
from .rows_at import RowsAt
from .subscriptions import Asked, Subscribers, Subscriptions

MOST_TOGETHER = 65_536
"""About the most answers that are in memory at once, beside those to subscriptions of the epoch."""


@dataclass(frozen=True)
class Answer(declarations.Answer):
    """Answers each subscription with the row as it is then, and each change of a row to all who subscribe to it.

    | what comes | who is answered | time of the answer |
    |---|---|---|
    | a subscription, or the end of one that wants an answer | who has sent it | the later one of record and row |
    | a change of the row, also a deletion | each subscriber, by key bytes | that of the change |

    Whoever subscribes to a null foreign key is told that there is no row, and not kept.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        asked, table = edges[self.flow], edges[self.table]
        changed = table.filter(table.kind <= Kind.VALUE)
        places = np.empty(len(asked) + len(changed), np.int64)
        places[path_order([asked, changed])] = np.arange(len(places))
        subscribers = [asked.values[name] for name in self.key]
        keys = encode_keys(list(changed.keys.values()))
        kept = Subscriptions(
            epoch.store(self.store),
            Asked(
                encode_keys(list(asked.keys.values())),
                encode_keys(subscribers),
                asked.values[declarations.HASH],
                to_numpy(asked.values[declarations.SUBSCRIBE]),
                asked.timestamp,
                places[: len(asked)],
            ),
            keys,
        )
        kept.put()
        waits = to_numpy(asked.values[declarations.ANSWER])
        answered = self._answered(asked.filter(waits), table, epoch)
        changes = _Changes(changed, bytes_of(keys), places[len(asked) :], [column.type for column in subscribers])
        pieces = self._pieces(answered, places[: len(asked)][waits], changes, kept)
        # The first ones go on now, and the rest as they are written: a row may have millions of subscribers.
        edges[self.flow] = next(pieces)
        epoch.more[self.flow] = pieces

    def _pieces(self, answered: Rows, places: Int64s, changes: _Changes, kept: Subscriptions) -> Iterator[Rows]:
        """All answers in path order, some at a time; perhaps none. `places`: of those to subscriptions."""
        done, told, size = 0, [], 0
        for number, (key, place) in enumerate(zip(changes.keys, changes.places.tolist(), strict=True)):
            order = 0
            for some in kept.at(key, place):
                told.append(_Told(number, order, some))
                order += len(some)
                size += len(some)
                if size >= MOST_TOGETHER:
                    before = int(np.searchsorted(places, place))
                    yield interleave([answered.take(np.arange(done, before)), self._told(changes, told)])
                    done, told, size = before, [], 0
        yield interleave([answered.take(np.arange(done, len(answered))), self._told(changes, told)])

    def _answered(self, asked: Rows, table: Rows, epoch: TaskEpoch) -> Rows:
        """The answers to subscriptions, and to ends of subscriptions that want one: there, no row."""
        names = dict.fromkeys(self.values.values())
        found = RowsAt.of(self.rows, table, asked, names, epoch)
        times = np.where(found.exists, np.maximum(asked.timestamp, found.timestamp[found.index]), asked.timestamp)
        there = found.exists & to_numpy(asked.values[declarations.SUBSCRIBE])
        columns = found.taken(there)
        return _answers(
            replace(asked, timestamp=times),
            {name: asked.values[name] for name in self.key},
            asked.values[declarations.HASH],
            there,
            {new: columns[name] for new, name in self.values.items()},
        )

    def _told(self, changes: _Changes, parts: Sequence[_Told]) -> Rows:
        """The answers to the subscribers of rows that change."""
        counts = [len(part.some) for part in parts]
        told = changes.rows.take(np.repeat(np.array([part.number for part in parts], np.int64), counts))
        nobody = pa.array([], pa.binary())
        columns = decode_keys(pa.concat_arrays([nobody, *(part.some.keys for part in parts)]), changes.types)
        values = told.values
        orders = [np.zeros(0, np.int64), *(part.order + np.arange(len(part.some)) for part in parts)]
        return _answers(
            told,
            dict(zip(self.key, columns, strict=True)),
            pa.concat_arrays([nobody, *(part.some.hashes for part in parts)]),
            told.kind == Kind.VALUE,
            {new: values[name] for new, name in self.values.items()},
        ).deeper(np.concatenate(orders))


@dataclass(frozen=True)
class _Changes:
    """The changes of rows. `keys`: encoded. `places`: see `Asked`. `types`: of the columns of subscribers' keys."""

    rows: Rows
    keys: Sequence[bytes]
    places: Int64s
    types: list[pa.DataType]


@dataclass(frozen=True)
class _Told:
    """Some subscribers who are told of a change. `number`: of the change; `order`: how many come before them."""

    number: int
    order: int
    some: Subscribers


def _answers(
    rows: Rows, key: Mapping[str, pa.Array], hashes: pa.Array, found: Bools, values: Mapping[str, pa.Array]
) -> Rows:
    """Answers for whoever has the `key`, at the time and place of `rows`."""
    made = replace(rows, kind=np.full(len(rows), Kind.VALUE, np.int8))
    return made.with_columns(key, {declarations.HASH: hashes, declarations.FOUND: pa.array(found), **values})
