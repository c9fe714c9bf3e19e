"""What an aggregate is, and which ones there are.

An aggregate keeps hidden state in columns of its store and folds rows into it, all groups at once. The same fold gives
one value for each group or a running value at each row (see `groups.py`), so that how often changes are emitted never
changes what they say. Results do not depend on where the input is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from ....errors import HeadwaterError
from ...topology import Agg
from ..keyed.groups import Groups
from .counts import Count
from .distinct import ApproxCountDistinct
from .lists import CollectList
from .picks import Extreme, Position
from .sums import avg, total

Columns = Mapping[str, pa.Array]


class Aggregate(Protocol):
    """One aggregate function of one column.

    `state`: its hidden columns by suffix; in a store they are called `<result column>.<suffix>`. `type`: the result's.
    `subtracts`: whether rows can be taken back (`Groups.sign`).
    """

    @property
    def state(self) -> Mapping[str, pa.DataType]: ...  # noqa: D102
    @property
    def type(self) -> pa.DataType: ...  # noqa: D102
    @property
    def subtracts(self) -> bool: ...  # noqa: D102

    def fold(self, groups: Groups, state: Columns, values: pa.Array | None) -> tuple[pa.Array, dict[str, pa.Array]]:
        """(result at each point, state of each group at the end).

        `state`: of each group, null where the group is new. `values`: the argument of each row, None for `count(*)`.
        """

    def result(self, state: Columns) -> pa.Array:
        """Results of states."""


class UnknownAggregateError(HeadwaterError):
    """A function that no aggregate is registered for."""

    def __init__(self, function: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no aggregate {function!r}", f"known: {', '.join(known)}")
        self.function = function


AGGREGATES: dict[str, Callable[[Agg], Aggregate]] = {
    "count": Count.of,
    "sum": total,
    "avg": avg,
    "mean": avg,
    "min": lambda agg: Extreme.of(agg, greatest=False),
    "max": lambda agg: Extreme.of(agg, greatest=True),
    "first": lambda agg: Position.of(agg, last=False),
    "first_value": lambda agg: Position.of(agg, last=False),
    "any_value": lambda agg: Position.of(agg, last=False),
    "last": lambda agg: Position.of(agg, last=True),
    "last_value": lambda agg: Position.of(agg, last=True),
    "collect_list": CollectList.of,
    "array_agg": CollectList.of,
    "approx_count_distinct": ApproxCountDistinct.of,
}
"""By Spark SQL's name."""


def aggregate(agg: Agg) -> Aggregate:
    """The aggregate that a step declares. Raises UnknownAggregateError."""
    if agg.function not in AGGREGATES:
        raise UnknownAggregateError(agg.function, sorted(AGGREGATES))
    return AGGREGATES[agg.function](agg)


ROWS = Agg("_rows", "count")


def row_count(aggs: Sequence[Agg]) -> Agg | None:
    """What counts a group's rows, so that one that has none left can be deleted; None where rows cannot be taken back.

    That is a `count(*)` among them or else ROWS, which a store keeps besides.
    """
    if not aggs or not all(aggregate(agg).subtracts for agg in aggs):
        return None
    return next((agg for agg in aggs if agg.function == "count" and agg.column is None), ROWS)


def kept_aggregates(aggs: Sequence[Agg]) -> tuple[Agg, ...]:
    """All aggregates that a store keeps which is declared to hold these."""
    return (*aggs, ROWS) if row_count(aggs) is ROWS else tuple(aggs)


def state_columns(aggs: Sequence[Agg]) -> dict[str, pa.DataType]:
    """The hidden columns of a store that is declared to hold these aggregates."""
    kept = kept_aggregates(aggs)
    return {f"{agg.name}.{suffix}": kind for agg in kept for suffix, kind in aggregate(agg).state.items()}


def results(aggs: Sequence[Agg], state: Columns) -> dict[str, pa.Array]:
    """The result columns of stored rows, given their hidden columns."""
    return {agg.name: aggregate(agg).result(own_state(agg, state)) for agg in aggs}


def own_state(agg: Agg, columns: Columns) -> dict[str, pa.Array]:
    """The hidden columns of one aggregate by suffix, of those of its store."""
    return {suffix: columns[f"{agg.name}.{suffix}"] for suffix in aggregate(agg).state}
