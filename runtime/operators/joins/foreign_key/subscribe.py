"""The first part of a join by a foreign key: changes of the left table become subscriptions to rows of the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....records.arrays import Bools, Int64s, to_numpy
from ....records.keys.encoding import encode_keys
from ....records.kinds import Kind
from ... import declarations
from ...node import Edges, step_name
from ...rows import Rows, is_old
from ...task_epoch import TaskEpoch
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
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        rows = edges[self.flow]
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
        hashes = self._hashes(rows, new, there)
        sent = np.concatenate([np.flatnonzero(leaves), np.flatnonzero(asks)])
        second = np.repeat([0, 1], [int(leaves.sum()), int(asks.sum())])
        order = np.lexsort((second, sent))
        sent, second = sent[order], second[order].astype(np.bool_)
        source = np.where(second, new[sent], replaced[sent])
        # Who only leaves is answered by the one that it leaves.
        answer = second | ~asks[sent]
        null = second & ~has_key[sent]
        made = replace(rows.take(new[sent]), kind=np.full(len(sent), Kind.VALUE, np.int8)).deeper(second.astype(int))
        picked = pa.array(source, mask=null)
        edges[self.flow] = made.with_columns(
            {name: column.take(picked) for name, column in zip(self.key, foreign, strict=True)},
            {
                **made.keys,
                declarations.HASH: hashes.take(pa.array(sent)),
                declarations.SUBSCRIBE: pa.array(second),
                declarations.ANSWER: pa.array(answer),
            },
        )

    def _hashes(self, rows: Rows, new: Int64s, there: Bools) -> pa.BinaryArray:
        """The hash of each new row; null for a deletion."""
        chosen = rows.take(new[there])
        hashes = pa.array(row_hashes(self.store, chosen.values, len(chosen)), pa.binary())
        return hashes.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _replaced(rows: Rows, new: Int64s) -> Int64s:
    """The row that each new row replaces; -1 for none."""
    old = is_old(rows.kind)
    return np.where((new > 0) & old[new - 1], new - 1, -1)
