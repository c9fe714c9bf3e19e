"""The first part of a join by a foreign key: changes of the left table become subscriptions to rows of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....records.arrays import Bools, Int64s, to_numpy
from ....records.keys.encoding import encode_keys
from ....records.kinds import Kind
from ....topology import Store
from ... import declarations
from ...keyed.codes import bytes_of
from ...keyed.stored_rows import RowStore, store_keys, stored_columns
from ...node import Edges, step_name
from ...rows import Rows, interleave, is_old
from ...task_epoch import TaskEpoch
from .expiring import expiring, unexpired
from .row_hash import row_hashes


@dataclass(frozen=True)
class Subscribe(declarations.Subscribe):
    """Turns each change of a table into one or two records with the foreign key as their key.

    Of a change, f is the foreign key of the row that is replaced, g that of the new one. What is sent, and to whom:

    | change | left | inner |
    |---|---|---|
    | to another g | unsubscribe from f, then subscribe to g | the same |
    | f = g, or a new row | subscribe to g | the same |
    | g is null | unsubscribe from f; ask nobody | unsubscribe from f, who answers (or ask nobody); counted |
    | deletion | the same | the same, not counted |

    Whoever subscribes is answered, also if there is no row. A record that asks nobody has a null key, and the answer is
    that there is no row. So every update of a row is answered, with the hash of the row that it is for.

    Of a table whose rows expire, nobody is asked where g is null or of a deletion: the result changes at once
    (`ForeignKeyJoin`). A row that expires unsubscribes, and is answered once more: by then all answers to it have come.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        rows = edges[self.flow]
        if self.expired is None:
            edges[self.flow] = self._asked(rows, epoch)
            return
        counting = unexpired(self.store, rows, epoch)
        gone = expiring(self.store, rows, counting, epoch)
        _keep(self.expired, gone, epoch)
        edges[self.flow] = interleave([self._asked(counting, epoch), self._last(gone)])

    def _asked(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        """What changes ask."""
        foreign = [rows.columns[column] for column in self.key.values()]
        keys = encode_keys(foreign)
        new = np.flatnonzero(~is_old(rows.kind))
        replaced = _replaced(rows, new)
        there = rows.kind[new] == Kind.VALUE
        # A deletion of a row that was not there changes nothing.
        new, replaced, there = (each[there | (replaced >= 0)] for each in (new, replaced, there))
        has = to_numpy(keys.is_valid())
        had_key = (replaced >= 0) & has[replaced]
        has_key = there & has[new]
        before = keys.take(pa.array(replaced, mask=~had_key))
        same = to_numpy(pc.equal(before, keys.take(pa.array(new, mask=~has_key))).fill_null(False))
        leaves = had_key & ~same
        asks = np.ones(len(new), np.bool_)
        if self.how == "inner":
            epoch.drop(step_name(self), "null_foreign_key", int((there & ~has_key).sum()))
            asks = has_key | ~had_key
        if self.expired is not None:
            asks = has_key
        hashes = self._hashes(rows, new, there)
        sent = np.concatenate([np.flatnonzero(leaves), np.flatnonzero(asks)])
        second = np.repeat([0, 1], [int(leaves.sum()), int(asks.sum())])
        order = np.lexsort((second, sent))
        sent, second = sent[order], second[order].astype(np.bool_)
        source = np.where(second, new[sent], replaced[sent])
        # Who only leaves is answered by the one that it leaves.
        answer = second | (~asks[sent] & (self.expired is None))
        null = second & ~has_key[sent]
        made = replace(rows.take(new[sent]), kind=np.full(len(sent), Kind.VALUE, np.int8)).deeper(second.astype(int))
        picked = pa.array(source, mask=null)
        keys = [column.take(picked) for column in foreign]
        return self._records(made, keys, hashes.take(pa.array(sent)), second, answer)

    def _last(self, gone: Rows) -> Rows:
        """What rows ask that expire. It comes behind what the change asks that moves the clock."""
        number = gone.path[-1] + 2
        made = replace(gone, path=(*gone.path[:-1], number))
        foreign = [gone.columns[column] for column in self.key.values()]
        hashes = pa.array([declarations.LAST] * len(gone), pa.binary())
        no = np.zeros(len(gone), np.bool_)
        return self._records(made, foreign, hashes, no, ~no)

    def _records(
        self, rows: Rows, foreign: Sequence[pa.Array], hashes: pa.BinaryArray, subscribe: Bools, answer: Bools
    ) -> Rows:
        return rows.with_columns(
            dict(zip(self.key, foreign, strict=True)),
            {
                **rows.keys,
                declarations.HASH: hashes,
                declarations.SUBSCRIBE: pa.array(subscribe),
                declarations.ANSWER: pa.array(answer),
            },
        )

    def _hashes(self, rows: Rows, new: Int64s, there: Bools) -> pa.BinaryArray:
        """The hash of each new row; null for a deletion."""
        chosen = rows.take(new[there])
        hashes = pa.array(row_hashes(self.store, chosen.values, len(chosen)), pa.binary())
        return hashes.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _keep(store: Store, rows: Rows, epoch: TaskEpoch) -> None:
    there = np.ones(len(rows), np.bool_)
    keys = bytes_of(store_keys(store, rows.keys))
    RowStore(epoch.store(store), stored_columns(store)).put(keys, rows.values, rows.timestamp, there, there)


def _replaced(rows: Rows, new: Int64s) -> Int64s:
    """The row that each new row replaces; -1 for none."""
    old = is_old(rows.kind)
    return np.where((new > 0) & old[new - 1], new - 1, -1)
