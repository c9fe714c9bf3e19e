"""The middle part of a join by a foreign key: subscriptions are kept beside the rows that they mean, and answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....records.arrays import Bools, Int64s, to_numpy
from ....records.key_reading import decode_keys
from ....records.keys import encode_keys
from ....records.kinds import Kind
from ... import declarations
from ...keyed.lookups import row_keys
from ...node import Edges
from ...rows import Rows, interleave, path_order
from ...task_epoch import TaskEpoch
from .rows_at import RowsAt
from .subscriptions import Asked, Subscriptions


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
        kept = Subscriptions(
            epoch.store(self.store),
            Asked(
                encode_keys(list(asked.keys.values())).to_pylist(),
                encode_keys(subscribers).to_pylist(),
                asked.values[declarations.HASH].to_pylist(),
                to_numpy(asked.values[declarations.SUBSCRIBE]),
                asked.timestamp,
                places[: len(asked)],
            ),
        )
        told = self._told(changed, places[len(asked) :], kept, [column.type for column in subscribers])
        kept.put()
        edges[self.flow] = interleave([self._answered(asked, table, epoch), told])

    def _answered(self, asked: Rows, table: Rows, epoch: TaskEpoch) -> Rows:
        """The answers to subscriptions, and to ends of subscriptions that want one: there, no row."""
        asked = asked.filter(to_numpy(asked.values[declarations.ANSWER]))
        names = dict.fromkeys(self.values.values())
        found = RowsAt.of(self.rows, table, asked, row_keys(self.rows, asked.keys), names, epoch)
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

    def _told(self, changed: Rows, places: Int64s, kept: Subscriptions, types: list[pa.DataType]) -> Rows:
        """The answers to the subscribers of rows that change. `types`: of the columns of their keys."""
        numbers, orders = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        subscribers: list[bytes] = []
        hashes: list[bytes] = []
        keys = encode_keys(list(changed.keys.values())).to_pylist()
        for number, there in kept.at_changes(keys, places):
            numbers.append(np.full(len(there), number))
            orders.append(np.arange(len(there)))
            subscribers += there
            hashes += there.values()
        told = changed.take(np.concatenate(numbers))
        columns = decode_keys(pa.array(subscribers, pa.binary()), types)
        values = told.values
        return _answers(
            told,
            dict(zip(self.key, columns, strict=True)),
            pa.array(hashes, pa.binary()),
            told.kind == Kind.VALUE,
            {new: values[name] for new, name in self.values.items()},
        ).deeper(np.concatenate(orders))


def _answers(
    rows: Rows, key: Mapping[str, pa.Array], hashes: pa.Array, found: Bools, values: Mapping[str, pa.Array]
) -> Rows:
    """Answers for whoever has the `key`, at the time and place of `rows`."""
    made = replace(rows, kind=np.full(len(rows), Kind.VALUE, np.int8))
    return made.with_columns(key, {declarations.HASH: hashes, declarations.FOUND: pa.array(found), **values})
