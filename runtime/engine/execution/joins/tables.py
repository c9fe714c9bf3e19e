"""The table-table join by the same key: a change of either side changes the joined row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....ir.topology import Store
from ....records.arrays import Bools, Int64s, cast_to
from ....records.types import Kind
from ...operators.joins import TableTableJoin
from ..aggregate import look_up, row_keys
from ..keyed.groups import Groups, run_starts, sorted_groups
from ..keyed.stored_rows import Versions, at_points, changes, changes_of, clock_at, expired, visible_columns
from ..node import Edges, EpochStore, TaskEpoch
from ..rows import Rows, concat, path_order, taken
from .lookups import as_of


def join_tables(join: TableTableJoin, edges: Edges, epoch: TaskEpoch) -> None:
    """See `TableTableJoin`."""
    this, other = (_new_rows(edges[name]) for name in (join.flow, join.table))
    # The keys of the changes of both sides, as columns of this side's types.
    theirs = zip(this.keys, other.keys.values(), strict=True)
    both = {name: (this.keys[name], column) for name, column in theirs}
    columns = {name: pa.concat_arrays([mine, cast_to(its, mine.type)]) for name, (mine, its) in both.items()}
    code, first, distinct = sorted_groups(row_keys(join.store, columns))
    columns = taken(columns, first)
    # Both sides may encode the same windowed key in different ways: `to_table` has no windowed store.
    others = distinct if join.other_store.type == join.store.type else row_keys(join.other_store, columns)
    sides = _Sides(
        _versions(join.store, epoch.store(join.store), distinct, this, this.value),
        _versions(join.other_store, epoch.store(join.other_store), others, other, join.values.values()),
        join,
    )
    # `come`: changes as they arrive, which give results. `seen`: the same changes at the moment of their base change,
    # from which the other side sees them; see `as_of`.
    come = [
        _Moments(this, code[: len(this)], True, sets=not join.this_made_of),
        _Moments(other, code[len(this) :], False, sets=not join.other_made_of),
    ]
    seen = [
        replace(each, rows=as_of(each.rows, [edges[name] for name in names]), triggers=False, sets=True)
        for names, each in zip((join.this_made_of, join.other_made_of), come, strict=True)
        if names
    ]
    moments = [*seen, *come]
    met = _without_expired(join, _met(moments, len(first)), moments, columns, epoch)
    triggers = concat([this.bare(), other.bare()]).take(met.trigger)
    # The changes that give results, grouped by key. `before`: the joined rows at the start of the epoch.
    giving = np.flatnonzero(sides.give(met))
    of_group, code = _present(met.key[giving], len(first))
    before = sides.joined(of_group, of_group)
    groups = Groups(code, len(of_group), join.emit == "each_update", before.exists)
    points = giving if groups.each else giving[groups.last]
    after = sides.joined(met.this[points], met.other[points])
    times = sides.times(met, triggers.timestamp)
    context = at_points(groups, triggers.take(giving), taken(columns, of_group))
    after = replace(after, timestamp=times[points])
    if met.forgotten is None or not (join.old and groups.each):
        edges[join.flow] = changes(groups, context, before, after, join.old)
    else:
        # A part of the replaced row may have expired since, so `changes` does not know the replaced row.
        this_gone, other_gone = met.forgotten
        mine = _replaced(groups, of_group, met.this[giving], this_gone[giving])
        its = _replaced(groups, of_group, met.other[giving], other_gone[giving])
        edges[join.flow] = changes_of(context, sides.joined(mine, its), after)


def _without_expired(
    join: TableTableJoin, met: _Met, moments: Sequence[_Moments], columns: Mapping[str, pa.Array], epoch: TaskEpoch
) -> _Met:
    """`met` with expired rows replaced by ABSENT. A row expires by the clock of its side at the moment of the change.

    `columns`: the columns of the distinct keys.
    """
    if not (join.store.is_windowed or join.other_store.is_windowed):
        return met
    key = taken(columns, met.key)
    order = path_order([each.rows for each in moments])
    triggers = np.concatenate([np.full(len(each.code), each.triggers) for each in moments])
    gone = list[Bools]()
    for of_this, store in ((True, join.store), (False, join.other_store)):
        moves = [each.sets and each.of_this == of_this for each in moments]
        times = [np.where(each, rows.rows.timestamp, -1) for each, rows in zip(moves, moments, strict=True)]
        clock = clock_at(store, order, np.concatenate(times), epoch)[order][triggers[order]]
        gone.append(expired(store, key, clock))
    mine, its = gone
    return replace(
        met,
        this=np.where(mine & ~met.of_this, ABSENT, met.this),
        other=np.where(its & met.of_this, ABSENT, met.other),
        this_before=np.where(mine, ABSENT, met.this_before),
        other_before=np.where(its, ABSENT, met.other_before),
        replaced=np.where(np.where(met.of_this, mine, its), ABSENT, met.replaced),
        forgotten=(mine, its),
    )


ABSENT = -1
"""The index of the version of a missing row: the last one of `_versions`."""


@dataclass(frozen=True)
class _Met:
    """The changes of both sides in path order, and the rows of both sides at each. All arrays have one entry for each.

    `trigger`: index of the change, in those of this side, then the other. `key`: number of the key. `of_this`: whether
    this side changed. `this`, `other`: the rows after the change, as indexes in `_versions` of their side.
    `this_before`, `other_before`: the same after the previous change of the key, or at the start of the epoch.
    `replaced`: the row that the change replaces, a version of its own side. `forgotten`: (whether the earlier rows of
    this side have expired at the change, the same of the other side); None for tables without windows.
    """

    trigger: Int64s
    key: Int64s
    of_this: Bools
    this: Int64s
    other: Int64s
    this_before: Int64s
    other_before: Int64s
    replaced: Int64s
    forgotten: tuple[Bools, Bools] | None = None


@dataclass(frozen=True)
class _Moments:
    """Changes of one side on an edge. `code`: the key number of each.

    `triggers`: whether they emit results. `sets`: whether the other side sees them from then on.
    """

    rows: Rows
    code: Int64s
    of_this: bool
    triggers: bool = True
    sets: bool = True


@dataclass(frozen=True)
class _Sides:
    """The versions of both sides' rows, and the join."""

    this: Versions
    other: Versions
    join: TableTableJoin

    def give(self, met: _Met) -> Bools:
        """Whether each change gives a change of the result, see the table in `TableTableJoin`."""
        this, other = self.this.exists[met.this], self.other.exists[met.other]
        replaced = np.where(
            met.of_this,
            self.this.exists[np.where(met.of_this, met.replaced, 0)],
            self.other.exists[np.where(met.of_this, 0, met.replaced)],
        )
        match self.join.how:
            case "inner":
                # If both sides lose their row at one moment, the joined row is deleted though neither side has a row.
                before = self.this.exists[met.this_before] & self.other.exists[met.other_before]
                return np.where(met.of_this, other, this) | (before & ~this & ~other)
            case "left":
                return this | (met.of_this & (other | replaced))
            case "outer":
                return this | other | replaced

    def joined(self, this: Int64s, other: Int64s) -> Versions:
        """The joined rows of these versions of both sides. The time is the greater one of both."""
        exists, theirs = self.this.exists[this], self.other.exists[other]
        values = taken(self.this.values, this, ~exists)
        other_values = {new: self.other.values[name] for new, name in self.join.values.items()}
        values |= taken(other_values, other, ~theirs)
        timestamp = np.maximum(self.this.timestamp[this], self.other.timestamp[other])
        match self.join.how:
            case "inner":
                return Versions(values, timestamp, exists & theirs)
            case "left":
                return Versions(values, timestamp, exists)
            case "outer":
                return Versions(values, timestamp, exists | theirs)

    def times(self, met: _Met, own: Int64s) -> Int64s:
        """The time of each result, ms: the greater one of the change (`own`) and of the other row, if it exists."""
        met_row = np.where(met.of_this, self.other.exists[met.other], self.this.exists[met.this])
        its_time = np.where(met.of_this, self.other.timestamp[met.other], self.this.timestamp[met.this])
        return np.where(met_row, np.maximum(own, its_time), own)


def _replaced(groups: Groups, first: Int64s, given: Int64s, gone: Bools) -> Int64s:
    """One side's version in the joined row that each change replaces; ABSENT where it has expired (`gone`).

    `first`: the version of each group at the start of the epoch. `given`: the version in each result.
    """
    previous = groups.previous
    return np.where(gone, ABSENT, np.where(previous < 0, first[groups.code], given[previous]))


def _new_rows(rows: Rows) -> Rows:
    """The changes without replaced rows, which are read from the store."""
    return rows.filter(rows.kind <= Kind.VALUE)


def _versions(store: Store, opened: EpochStore, keys: pa.BinaryArray, rows: Rows, names: Iterable[str]) -> Versions:
    """The stored rows of all keys, then the row after each change, then a missing row. `names`: the value columns."""
    stored = look_up(store, opened, keys)
    before, after = visible_columns(store, stored), rows.values
    types = {name: before[name].type for name in names}
    return Versions(
        {
            name: pa.concat_arrays([before[name], cast_to(after[name], kind), pa.nulls(1, kind)])
            for name, kind in types.items()
        },
        np.concatenate([stored.timestamp, rows.timestamp, [-1]]),
        np.concatenate([stored.exists, rows.kind == Kind.VALUE, [False]]),
    )


def _met(moments: Sequence[_Moments], keys: int) -> _Met:
    """The rows of both sides at each change. `moments`: triggering ones come last. `keys`: the number of keys.

    In `_versions` of a side, version k is the stored row of key k, and version `keys` + n the row after its change n.

    Example: two keys. This side changes key 0 at the paths 0 and 3, the other side key 0 at 1 and key 1 at 2.

        path            0     1      2      3
        trigger         0     2      3      1       changes of this side are 0 and 1, of the other 2 and 3
        key             0     0      1      0
        this            2     2      1      3       2 and 3: its changes; 1: the stored row of key 1
        other           0     2      3      2
        this_before     0     2      1      2
        other_before    0     0      1      2
        replaced        0     0      1      2       the first three replace stored rows
    """
    order = path_order([each.rows for each in moments])
    code = np.concatenate([each.code for each in moments])[order]
    sort = np.argsort(code, kind="stable")
    order, key = order[sort], code[sort]
    triggers, sets, of_this = (
        np.repeat([getattr(each, name) for each in moments], [len(each.code) for each in moments])[order]
        for name in ("triggers", "sets", "of_this")
    )
    version = np.concatenate([keys + np.arange(len(each.code)) for each in moments])[order]
    places = np.arange(len(key))
    start = np.maximum.accumulate(np.where(run_starts(key), places, 0))

    def latest(which: Bools) -> tuple[Int64s, Int64s]:
        """(Version of a side at each triggering change, the same at the one before). `which`: rows that set it."""
        last = np.maximum.accumulate(np.where(which, places, -1))
        now = np.where(last >= start, version[last], key)[triggers]
        of = key[triggers]
        return now, np.where(run_starts(of), of, np.concatenate([now[:1], now[:-1]]))

    this, this_before = latest(sets & of_this)
    other, other_before = latest(sets & ~of_this)
    replaced = key.copy()
    for own in (np.flatnonzero(triggers & of_this), np.flatnonzero(triggers & ~of_this)):
        replaced[own[1:]] = np.where(run_starts(key[own])[1:], key[own[1:]], version[own[:-1]])
    # Restore path order from the order by key.
    place = np.full(len(key), -1)
    place[sort[triggers]] = np.arange(np.count_nonzero(triggers))
    back = place[place >= 0]
    return _Met(
        trigger=order[triggers][back] - sum(len(each.code) for each in moments if not each.triggers),
        key=key[triggers][back],
        of_this=of_this[triggers][back],
        this=this[back],
        other=other[back],
        this_before=this_before[back],
        other_before=other_before[back],
        replaced=replaced[triggers][back],
    )


def _present(code: Int64s, keys: int) -> tuple[Int64s, Int64s]:
    """(Distinct keys, ascending; index of each row's key among them). Codes [4, 1, 4]: ([1, 4], [1, 0, 1])."""
    there = np.zeros(keys, np.bool_)
    there[code] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[code]
