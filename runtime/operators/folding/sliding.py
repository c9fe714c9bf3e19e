"""Folds records into the rows of sliding windows, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ...python_functions.errors import FunctionError
from ...python_functions.objects import Row
from ..keyed.codes import last_rows
from ..node import RowFailedError
from ..rows import Rows
from ..sliding.folding import Folded, changed_windows
from ..sliding.updates import Updates
from .calls import Fold, kept
from .groups import keys_of, values_of


@dataclass(frozen=True)
class FoldedSlides:
    """A SlidingFold by Python of the project. The state of a window is its row."""

    calls: Fold

    @property
    def travels(self) -> bool:
        """No: rows are stored as they are."""
        return False

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The stored columns."""
        return dict(stored)

    def fold(self, rows: Rows, found: Updates, stored: Mapping[str, pa.Array], each: bool) -> Folded:
        """See `SlidingFold`."""
        count = len(next(iter(stored.values())))
        run = _Run(self.calls, rows, [*self.calls.states.rows(stored, np.ones(count, np.bool_))])
        after = list(run.after_updates(found))
        window, group = changed_windows(found)
        last = last_rows(group, len(window))
        ends = self.calls.states.to_columns([after[update] for update in last.tolist()])
        values = self.calls.states.to_columns(after) if each else ends
        return Folded(window, group, values, ends, found.timestamp[last])


@dataclass
class _Run:
    """One fold. What windows hold has a number in `states`: the stored windows first, then one for each record that is
    added to what one of them holds. A window that is made from another one goes on from there: `added` has the number
    of what is held once a row is added, so that nothing is called twice.
    """

    calls: Fold
    rows: Rows
    states: list[Row]
    added: dict[tuple[int, int], int] = field(default_factory=dict)

    def after_updates(self, found: Updates) -> Iterator[Row]:
        """The row of the window that each update leaves."""
        values = values_of(self.rows, self.rows.value, self.calls)
        keys = keys_of(self.rows)
        contents, begin = found.contents.tolist(), (found.ends - np.diff(found.ends, prepend=0)).tolist()
        base = found.base.tolist()
        # Of each window what it holds, and how many of its contents are in that.
        held: dict[int, tuple[int, int]] = {}
        for window, size in zip(found.window.tolist(), found.size.tolist(), strict=True):
            state, have = held.get(window, (base[window], 0))
            for row in contents[begin[window] + have : begin[window] + size]:
                state = self._with(state, row, keys[row], values[row])
            held[window] = state, size
            yield self.states[state]

    def _with(self, state: int, row: int, key: Row, value: Row) -> int:
        """The number of what is held with one more row. `state`: -1 for nothing. Raises RowFailedError."""
        number = self.added.get((state, row))
        if number is None:
            try:
                made = self.calls.add(None if state < 0 else self.states[state], key, value)
                after = kept(self.calls, made, "sliding window")
            except FunctionError as error:
                raise RowFailedError(int(self.rows.order[row]), error) from error
            number = self.added[state, row] = len(self.states)
            self.states.append(after)
        return number
