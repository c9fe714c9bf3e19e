"""The operator of Python functions that expressions call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...ir import declarations
from ...python_functions.calling import CallFailedError, column_call
from ...records.arrays import Bools
from ...records.types import Kind
from .node import EachFailedError, Edges, TaskEpoch


@dataclass(frozen=True)
class Call(declarations.Call):
    """Calls a Python function for each row, also for rows that another one replaces: of equal rows it makes equal ones.

    A key column among the arguments comes by its physical name.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002 - a call sees nothing of the epoch
        """See `Node`. Raises EachFailedError, FunctionLoadError."""
        rows = edges[self.flow]
        asked = rows.kind >= (Kind.TOMBSTONE if self.null_values else Kind.VALUE)
        places = np.flatnonzero(asked)
        arguments = [rows.columns[name] for name in self.arguments]
        if len(places) < len(rows):
            arguments = [column.take(pa.array(places)) for column in arguments]
        try:
            found = column_call(self.udf)(arguments, len(places))
        except CallFailedError as error:
            orders = rows.order[places[list(error.failed)]].tolist()
            raise EachFailedError([*zip(orders, error.failed.values(), strict=True)], self.by_itself) from error
        edges[self.flow] = rows.with_columns(None, {**rows.values, self.column: _spread(found, asked)})


def _spread(found: pa.Array, asked: Bools) -> pa.Array:
    """The values at the rows that were asked for, null at the others."""
    if asked.all():
        return found
    return found.take(pa.array(np.cumsum(asked) - 1, mask=~asked))
