"""Steps without a store between processors that share one. Each record passes them before its `forward` returns.

They are the operators that compute expressions, on one row at a time. Where all records are through, the same operators
make the rows of the edges, at once: of the same rows they make the same, so what was taken one by one are these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....errors import HeadwaterError
from ...python_functions.objects import RowType, UnfitRowError
from ...records.kinds import Kind
from ...records.types import parse_columns
from ..columns import KeyBy, Select
from ..computing import Branch, Compute, Explode, Where
from ..declarations import Flow
from ..node import Edges, RowFailedError, RowsFailedError
from ..rows import Rows, null_keys
from ..task_epoch import TaskEpoch
from .moment import Moment
from .record import Record

RowWise = Where | Compute | Explode | Branch | Select | KeyBy
"""What makes of each row none, one or several, whatever the others are."""

Take = Callable[[Record], None]
"""What takes a record that is forwarded now."""


@dataclass(frozen=True)
class Columns:
    """The columns of an edge, as the types of records."""

    key: RowType
    value: RowType

    @classmethod
    def of(cls, rows: Rows) -> Columns:
        """Those of rows."""
        sides = ({name: column.type for name, column in side.items()} for side in (rows.keys, rows.values))
        return cls(*map(RowType, sides))

    def row(self, record: Record, order: int) -> Rows:
        """A record as a row, without its headers."""
        first = np.zeros(1, np.int64)
        kind = np.array([Kind.TOMBSTONE if record.value is None else Kind.VALUE], np.int8)
        plain = Rows((first,), kind, np.array([record.timestamp]), np.array([order]), None, {}, (), ())
        return plain.with_columns(self.key.to_columns([record.key]), self.value.to_columns([record.value]))

    def records(self, rows: Rows, came: Record) -> list[Record]:
        """Rows as records, with the headers of that which they come from. Raises UnfitRowError."""
        keys = self.key.rows(rows.keys, ~null_keys(list(rows.keys.values()), len(rows)))
        values = self.value.rows(rows.values, rows.kind == Kind.VALUE)
        return [Record(key, value, came.timestamp, came.headers) for key, value in zip(keys, values, strict=True)]

    def copy(self, record: Record) -> Record:
        """A record for one that may change the lists and dicts in it."""
        headers = dict(record.headers or {})
        return Record(self.key.copy(record.key), self.value.copy(record.value), record.timestamp, headers)


class Passing:
    """Operators that a record passes, one after another. `takes`: what takes what comes out, by edge."""

    def __init__(
        self, step: RowWise, came: Columns, makes: Mapping[str, Columns], epoch: TaskEpoch, moment: Moment
    ) -> None:
        self.step = step
        self.takes: Mapping[str, Sequence[Take]] = {}
        self._came = came
        self._makes = makes
        self._steps: tuple[RowWise, ...] = (step,)
        self._epoch = epoch
        self._moment = moment

    def lead_to(self, takes: Mapping[str, Sequence[Take]]) -> Sequence[Take]:
        """Have these take what comes out. Returns what takes a record for it: itself, where anybody needs it."""
        self.takes = takes
        following = [getattr(take, "__self__", None) for each in takes.values() for take in each]
        if len(following) == 1 and isinstance(following[0], Passing):
            self._join(following[0])
        return [self.take] if following else []

    def _join(self, following: Passing) -> None:
        """Have rows go through both before they are made records again, where that keeps their order."""
        many = isinstance(self.step, Explode) and len(following.takes) > 1
        if [*self.takes] == [following.step.flow] and not many:
            self._steps = (self.step, *following._steps)
            self._makes, self.takes = following._makes, following.takes

    def take(self, record: Record) -> None:
        """Have a record pass. Raises RowFailedError."""
        edges = {self.step.flow: self._came.row(record, self._moment.order)}
        for step in self._steps:
            self._run(step, edges)
            if not any(map(len, edges.values())):
                return
        for name, takes in self.takes.items():
            if takes and len(edges[name]):
                for made in self._records(name, edges[name], record):
                    for take in takes:
                        take(self._makes[name].copy(made))

    def _run(self, step: RowWise, edges: Edges) -> None:
        try:
            step.run(edges, self._epoch)
        except RowsFailedError as error:
            self._moment.failed = RowFailedError(self._moment.order, HeadwaterError(error.message), step.at)
            raise self._moment.failed from error

    def _records(self, name: str, rows: Rows, came: Record) -> list[Record]:
        try:
            return self._makes[name].records(rows, came)
        except UnfitRowError as error:
            cause = HeadwaterError(f"a processor cannot be given this record: {error.cause}")
            self._moment.failed = RowFailedError(self._moment.order, cause, self._steps[-1].at)
            raise self._moment.failed from error


def no_rows(flow: Flow) -> Rows:
    """An edge of these columns on which nothing is."""
    none = np.zeros(0, np.int64)
    keys, values = (
        {name: pa.array([], kind) for name, kind in parse_columns(side).items()} for side in (flow.key, flow.value)
    )
    return Rows((none,), none.astype(np.int8), none, none, None, {}, (), ()).with_columns(keys, values)
