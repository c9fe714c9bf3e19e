"""The last part of a join by a foreign key: answers meet the rows that have asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import eq

import numpy as np
import pyarrow as pa

from ....records.arrays import to_numpy, typed
from ....records.keys.encoding import encode_keys
from ....records.kinds import Kind
from ....records.types import parse_columns
from ... import declarations
from ...node import Edges, step_name
from ...rows import Rows, interleave
from ...task_epoch import TaskEpoch
from .expiring import unexpired
from .forget import forget
from .row_hash import row_hashes
from .rows_at import RowsAt


@dataclass(frozen=True)
class ForeignKeyJoin(declarations.ForeignKeyJoin):
    """Makes upserts of the result of answers: the left row as it is now, with the columns of the other one.

    An answer to a row that is another one by now is dropped and counted: that row has asked, too. The result is null
    where the left row is gone and, of an inner join, where the other row was not found.

    The rows of a table that expire are looked up among those that have expired then, until the last answer has come.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        answers, table = edges.pop(self.flow), edges[self.table]
        if self.expired is None:
            edges[self.into] = self._joined(answers, table, epoch)
            return
        last = np.array([row == declarations.LAST for row in answers.columns[declarations.HASH].to_pylist()], np.bool_)
        ended, table = answers.filter(last), unexpired(self.store, table, epoch)
        forget(self.expired, ended, epoch)
        edges[self.ended] = ended.with_columns(None, {})
        joined = self._joined(answers.filter(~last), table, epoch)
        edges[self.into] = interleave([joined, self._at_once(table, joined)])

    def _joined(self, answers: Rows, table: Rows, epoch: TaskEpoch) -> Rows:
        """What answers make of the rows that have asked."""
        names = list(parse_columns(self.store.value))
        left = RowsAt.of(self.store, table, answers, names, epoch, self.expired)
        rows = left.taken(left.exists)
        # Only rows that are there: each answer to one of the others has no hash.
        there = pa.array(np.flatnonzero(left.exists))
        hashes = row_hashes(self.store, {name: column.take(there) for name, column in rows.items()}, len(there))
        current: list[bytes | None] = [None] * len(answers)
        for place, row in zip(there.to_pylist(), hashes, strict=True):
            current[place] = row
        asked = answers.columns[declarations.HASH].to_pylist()
        fits = np.fromiter(map(eq, asked, current), np.bool_, len(asked))
        epoch.drop(step_name(self), "outdated_answer", int((~fits).sum()))
        found = to_numpy(answers.columns[declarations.FOUND])
        exists = left.exists & (found | (self.how == "left"))
        kind = np.where(exists, Kind.VALUE, Kind.TOMBSTONE).astype(np.int8)
        other = {name: column for name, column in answers.values.items() if name not in _META}
        picked = pa.array(np.arange(len(answers)), mask=~exists)
        values = {name: column.take(picked) for name, column in {**rows, **other}.items()}
        return replace(answers, kind=kind).with_columns(None, values).filter(fits)

    def _at_once(self, table: Rows, joined: Rows) -> Rows:
        """What rows make of which nobody is asked: those without a foreign key, and those that are deleted.

        An answer to a deletion might come when the row is there again, and has expired: nothing would tell it then from
        one that counts. `joined`: rows with the same columns.
        """
        new = table.filter(table.kind <= Kind.VALUE)
        nobody = to_numpy(encode_keys([new.columns[column] for column in self.asks_by.values()]).is_null())
        rows = new.filter(nobody | (new.kind == Kind.TOMBSTONE))
        exists = (rows.kind == Kind.VALUE) & (self.how == "left")
        places = pa.array(np.arange(len(rows)), mask=~exists)
        mine = rows.values
        values = {
            name: typed(mine[name].take(places), column.type) if name in mine else pa.nulls(len(rows), column.type)
            for name, column in joined.values.items()
        }
        keys = {name: typed(rows.keys[name], column.type) for name, column in joined.keys.items()}
        kind = np.where(exists, Kind.VALUE, Kind.TOMBSTONE).astype(np.int8)
        return replace(rows, kind=kind, state=None).with_columns(keys, values)


_META = (declarations.HASH, declarations.FOUND)
