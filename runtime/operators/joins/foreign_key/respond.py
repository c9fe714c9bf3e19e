"""The last part of a join by a foreign key: answers meet the rows that have asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import eq

import numpy as np
import pyarrow as pa

from ....records.arrays import to_numpy
from ....records.kinds import Kind
from ....records.types import parse_columns
from ... import declarations
from ...keyed.lookups import row_keys
from ...node import Edges, step_name
from ...task_epoch import TaskEpoch
from .row_hash import row_hashes
from .rows_at import RowsAt


@dataclass(frozen=True)
class ForeignKeyJoin(declarations.ForeignKeyJoin):
    """Makes upserts of the result of answers: the left row as it is now, with the columns of the other one.

    An answer to a row that is another one by now is dropped and counted: that row has asked, too. The result is null
    where the left row is gone and, of an inner join, where the other row was not found.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        answers = edges.pop(self.flow)
        names = list(parse_columns(self.store.value))
        left = RowsAt.of(self.store, edges[self.table], answers, row_keys(self.store, answers.keys), names, epoch)
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
        edges[self.into] = replace(answers, kind=kind).with_columns(None, values).filter(fits)


_META = (declarations.HASH, declarations.FOUND)
