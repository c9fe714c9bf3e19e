"""Folds records into the rows of sessions, one after another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...python_functions.errors import FunctionError
from ...python_functions.objects import Row
from ...records.arrays import Int64s
from ..node import RowFailedError
from ..rows import Rows
from ..sessions.folding import Folded
from ..sessions.merging import Merged
from .calls import Fold, kept
from .groups import keys_of, values_of


@dataclass(frozen=True)
class FoldedSessions:
    """A SessionFold by Python of the project. The state of a session is its row."""

    calls: Fold

    @property
    def travels(self) -> bool:
        """No: rows are stored as they are."""
        return False

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The stored columns."""
        return dict(stored)

    def fold(self, rows: Rows, merged: Merged, stored: Mapping[str, pa.Array], order: Int64s, each: bool) -> Folded:  # noqa: ARG002 - rows come in their order
        """See `SessionFold`."""
        count = len(next(iter(stored.values())))
        before = self.calls.states.rows(stored, np.ones(count, np.bool_))
        accepted = np.flatnonzero(~merged.late)
        at_row, ends = self._rows(rows, merged, before)
        states = self.calls.states.to_columns([*before, *ends])
        point = np.full(len(rows), -1)
        if each:
            point[accepted] = np.arange(len(accepted))
            values = self.calls.states.to_columns([at_row[row] for row in accepted.tolist()])
        else:
            point[accepted] = count + merged.chain[accepted]
            values = states
        return Folded(values, point, states, count + np.arange(len(merged.level)))

    def _rows(self, rows: Rows, merged: Merged, before: Sequence[Row]) -> tuple[dict[int, Row], list[Row]]:
        """The session's row after each record, and at the end of each chain."""
        values = values_of(rows, rows.value, self.calls)
        keys = keys_of(rows)
        parts: defaultdict[int, list[int]] = defaultdict(list)
        for chain, version in zip(*(side.tolist() for side in merged.made_of), strict=True):
            parts[chain].append(version)
        at_row: dict[int, Row] = {}
        current: dict[int, Row] = {}
        for row, chain in enumerate(merged.chain.tolist()):
            if chain < 0:
                continue
            try:
                if chain not in current:
                    found = [before[-1 - each] if each < 0 else at_row[each] for each in parts[chain]]
                    state = self._merged(found)
                else:
                    state = current[chain]
                current[chain] = at_row[row] = self._kept(self.calls.add(state, keys[row], values[row]))
            except FunctionError as error:
                raise RowFailedError(int(rows.order[row]), error) from error
        return at_row, [current[chain] for chain in range(len(merged.level))]

    def _merged(self, found: Sequence[Row]) -> Row | None:
        """One state of those that are joined, in the order of their ends; None of none."""
        state = found[0] if found else None
        for each in found[1:]:
            state = self._kept(self.calls.merge(state, each))
        return state

    def _kept(self, state: Row | None) -> Row:
        return kept(self.calls, state, "session")
