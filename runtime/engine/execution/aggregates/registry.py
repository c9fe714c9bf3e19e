"""The table of all aggregate functions.

An aggregate keeps hidden state in columns of its store, and folds rows into it for all groups at once. The same fold
gives one value for each group, or a running value at each row (see `groups.py`). So the contents of changes do not
depend on how often they are emitted. Results do not depend on where epochs end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from .....errors import HeadwaterError
from ....ir.topology import Agg
from .distinct import ApproxCountDistinct
from .picks import Aggregate, CollectList, Count, Extreme, Position
from .sums import avg, total

Columns = Mapping[str, pa.Array]


class UnknownAggregateError(HeadwaterError):
    """A declaration has an unknown aggregate function."""

    def __init__(self, function: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no aggregate {function!r}", f"known: {', '.join(known)}")
        self.function = function


AGGREGATES: dict[str, Callable[[Agg], Aggregate]] = {
    "count": lambda _: Count(),
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
"""The aggregates by their names in Spark SQL."""


def aggregate(agg: Agg, merges: bool = False) -> Aggregate:
    """The aggregate function of a declaration. `merges`: whether groups are merged. Raises UnknownAggregateError."""
    if agg.function not in AGGREGATES:
        raise UnknownAggregateError(agg.function, sorted(AGGREGATES))
    function = AGGREGATES[agg.function](agg)
    return replace(function, by_order=True) if merges and isinstance(function, Position | CollectList) else function


ROWS = Agg("_rows", "count")


def row_count(aggs: Sequence[Agg]) -> Agg | None:
    """The aggregate that counts a group's rows, so that an empty group can be deleted. None if rows cannot be removed.

    It is a `count(*)` of `aggs`, or else ROWS, which the store keeps in addition.
    """
    if not aggs or not all(aggregate(agg).subtracts for agg in aggs):
        return None
    return next((agg for agg in aggs if agg.function == "count" and agg.column is None), ROWS)


def kept_aggregates(aggs: Sequence[Agg]) -> tuple[Agg, ...]:
    """All aggregates of a store: the declared ones, and ROWS if it is needed."""
    return (*aggs, ROWS) if row_count(aggs) is ROWS else tuple(aggs)


def state_columns(aggs: Sequence[Agg], merges: bool = False) -> dict[str, pa.DataType]:
    """The hidden columns of a store with these declared aggregates. `merges`: whether it is a session store."""
    kept = kept_aggregates(aggs)
    return {f"{agg.name}.{suffix}": kind for agg in kept for suffix, kind in aggregate(agg, merges).state.items()}


def results(aggs: Sequence[Agg], state: Columns, merges: bool = False) -> dict[str, pa.Array]:
    """The result columns of stored rows, from their hidden columns."""
    return {agg.name: aggregate(agg, merges).result(own_state(agg, state, merges)) for agg in aggs}


def own_state(agg: Agg, columns: Columns, merges: bool = False) -> dict[str, pa.Array]:
    """The hidden columns of one aggregate by suffix, from the columns of its store."""
    return {suffix: columns[f"{agg.name}.{suffix}"] for suffix in aggregate(agg, merges).state}
