"""Aggregation with Python functions of the project: `reduce`, and `aggregate` with a class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ...ir.windows import SlidingWindow
from ...python_functions.errors import FunctionError
from ...python_functions.objects import Row
from ...records.arrays import Int64s
from ..operators.aggregations import AggregateWith, Reduce
from ..operators.operator import Side
from .aggregate_sessions import FoldedSessions, SessionTable
from .aggregator_calls import AggregatorFold, Fold, Folding, ReduceFold, kept, keys_of, values_of
from .keyed.groups import last_rows
from .keyed.stored_rows import stored_columns
from .node import Edges, RowFailedError, TaskEpoch, step_name
from .rows import Rows
from .session_merging import Merged
from .sliding.aggregate_sliding import FoldedWindows, SlidingTable, changed_windows
from .sliding.one_by_one import Updates

# Folds records into the rows of sessions, record by record.


@dataclass(frozen=True)
class AggregatedSessions:
    """A SessionFold with Python of the project. The state of a session is its row."""

    calls: Fold

    @property
    def travels(self) -> bool:
        """No: rows are stored as they are."""
        return False

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The stored columns."""
        return dict(stored)

    def fold(
        self,
        rows: Rows,
        merged: Merged,
        stored: Mapping[str, pa.Array],
        order: Int64s,  # noqa: ARG002 - rows come in order
        each: bool,
    ) -> FoldedSessions:
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
        return FoldedSessions(values, point, states, count + np.arange(len(merged.level)))

    def _rows(self, rows: Rows, merged: Merged, before: Sequence[Row]) -> tuple[dict[int, Row], list[Row]]:
        """(Row -> state after it, states at the ends of chains). `before`: the states of the stored sessions."""
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
        """One state merged from `found`, in the order of session ends; None if `found` is empty."""
        state = found[0] if found else None
        for each in found[1:]:
            state = self._kept(self.calls.merge(state, each))
        return state

    def _kept(self, state: Row | None) -> Row:
        return kept(self.calls, state, "session")


# Folds records into the rows of sliding windows, record by record.


@dataclass(frozen=True)
class AggregatedSlides:
    """A SlidingFold with Python of the project. The state of a window is its row."""

    calls: Fold

    @property
    def travels(self) -> bool:
        """No: rows are stored as they are."""
        return False

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The stored columns."""
        return dict(stored)

    def fold(self, rows: Rows, found: Updates, stored: Mapping[str, pa.Array], each: bool) -> FoldedWindows:
        """See `SlidingFold`."""
        count = len(next(iter(stored.values())))
        run = _Run(self.calls, rows, [*self.calls.states.rows(stored, np.ones(count, np.bool_))])
        after = list(run.after_updates(found))
        window, group = changed_windows(found)
        last = last_rows(group, len(window))
        ends = self.calls.states.to_columns([after[update] for update in last.tolist()])
        values = self.calls.states.to_columns(after) if each else ends
        return FoldedWindows(window, group, values, ends, found.timestamp[last])


@dataclass
class _Run:
    """One fold. `states`: the states of the stored windows, then one for each call of the aggregator.

    Windows share states: a window made from another one continues with its state. `added`: (index of a state, row) ->
    index of the state with this row, so that no call is made twice.
    """

    calls: Fold
    rows: Rows
    states: list[Row]
    added: dict[tuple[int, int], int] = field(default_factory=dict)

    def after_updates(self, found: Updates) -> Iterator[Row]:
        """The row of the window after each update."""
        values = values_of(self.rows, self.rows.value, self.calls)
        keys = keys_of(self.rows)
        contents, begin = found.contents.tolist(), (found.ends - np.diff(found.ends, prepend=0)).tolist()
        base = found.base.tolist()
        # Window -> (index of its state, the number of its contents in this state).
        held: dict[int, tuple[int, int]] = {}
        for window, size in zip(found.window.tolist(), found.size.tolist(), strict=True):
            state, have = held.get(window, (base[window], 0))
            for row in contents[begin[window] + have : begin[window] + size]:
                state = self._with(state, row, keys[row], values[row])
            held[window] = state, size
            yield self.states[state]

    def _with(self, state: int, row: int, key: Row, value: Row) -> int:
        """The index of a state with one more row. `state`: the index without it, or -1. Raises RowFailedError."""
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


# Chooses the kind of fold: by key and window, by session, or by sliding window.


def folded(
    fold: Fold,
    node: Reduce | AggregateWith,
    of: Side,
    step: str,
    rows: Rows,
    epoch: TaskEpoch,
) -> Rows:
    """The changes of an operator's table. `step`: its name. Raises RowFailedError."""
    if node.store.type == "session":
        return SessionTable(node.store, AggregatedSessions(fold), node.emit, node.old, step, node.headers).run(
            rows, epoch
        )
    if isinstance(node.store.window, SlidingWindow):
        return SlidingTable(node.store, AggregatedSlides(fold), node.emit, node.old, step).run(rows, epoch)
    return Folding(fold, node.store, node.emit, node.old, of, step).run(rows, epoch)


# The operator of the `aggregate` step with a class.


def aggregate_with(node: AggregateWith, edges: Edges, epoch: TaskEpoch) -> None:
    """See `AggregateWith`. Raises RowFailedError, FunctionError."""
    fold = AggregatorFold(node.function, stored_columns(node.store))
    edges[node.flow] = folded(fold, node, node.of, step_name(node), edges[node.flow], epoch)


# The operator of the `reduce` step.


def reduce_rows(node: Reduce, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Reduce`. Raises RowFailedError, FunctionLoadError."""
    fold = ReduceFold(node.function, stored_columns(node.store))
    edges[node.flow] = folded(fold, node, "stream", step_name(node), edges[node.flow], epoch)
