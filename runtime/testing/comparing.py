"""Comparison of expected rows with actual rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from ..query.rows import Row
from ..records.record_json import Record
from .rows import Cells, Columns, cells_of

# Alignment of two lists by which of their items match.

Pairs = list[tuple[int | None, int | None]]
"""Positions in both lists; None where an item has no counterpart."""

Matches = Callable[[int, int], bool]


def align(lefts: int, rights: int, matches: Matches) -> Pairs:
    """All items of both lists in their order, with as many matching pairs as possible (longest common subsequence).

    Between matches, other items stand side by side as long as both lists have some:

        lefts, rights = "abd", "xbcd"
        align(3, 4, lambda left, right: lefts[left] == rights[right])
        # [(0, 0), (1, 1), (None, 2), (2, 3)]
        #  a  x    b  b          c    d  d
    """
    pairs: Pairs = []
    left = right = 0
    for to_left, to_right in [*_common(lefts, rights, matches), (lefts, rights)]:
        paired = min(to_left - left, to_right - right)
        pairs += [(left + n, right + n) for n in range(paired)]
        pairs += [(n, None) for n in range(left + paired, to_left)]
        pairs += [(None, n) for n in range(right + paired, to_right)]
        if to_left < lefts:
            pairs.append((to_left, to_right))
        left, right = to_left + 1, to_right + 1
    return pairs


def _common(lefts: int, rights: int, matches: Matches) -> Iterator[tuple[int, int]]:
    """A longest sequence of matching pairs, in the order of both lists."""
    start = 0
    while start < min(lefts, rights) and matches(start, start):
        yield start, start
        start += 1
    longest = [[0] * (rights - start + 1) for _ in range(lefts - start + 1)]
    for left in range(lefts - 1, start - 1, -1):
        for right in range(rights - 1, start - 1, -1):
            row, column = left - start, right - start
            with_both = longest[row + 1][column + 1] + 1 if matches(left, right) else 0
            longest[row][column] = max(longest[row + 1][column], longest[row][column + 1], with_both)
    left = right = start
    while left < lefts and right < rights:
        row, column = left - start, right - start
        if matches(left, right) and longest[row][column] == longest[row + 1][column + 1] + 1:
            yield left, right
            left, right = left + 1, right + 1
        elif longest[row + 1][column] >= longest[row][column + 1]:
            left += 1
        else:
            right += 1


def best_matching(lefts: int, rights: int, matches: Matches) -> dict[int, int]:
    """As many matching pairs as possible, in any order: left -> right (augmenting paths). Earlier items keep theirs.

    wanted = [{0, 1}, {0}]  # the first item takes 0, and moves to 1 for the second one
    best_matching(2, 2, lambda left, right: right in wanted[left])
    # {0: 1, 1: 0}
    """
    matching: dict[int, int] = {}
    taken: dict[int, int] = {}
    for left in range(lefts):
        reachable = _reachable(left, rights, matches, taken)
        at = next((right for right in reachable if right not in taken), None)
        while at is not None:  # the new owner of `at` leaves its former item to the previous owner
            by = reachable[at]
            before = matching.get(by)
            matching[by], taken[at] = at, by
            at = before
    return matching


def _reachable(left: int, rights: int, matches: Matches, taken: dict[int, int]) -> dict[int, int]:
    """Items that `left` can take, directly or by moving their owners, up to the first free one: right -> its taker."""
    reachable: dict[int, int] = {}
    takers = [left]
    for taker in takers:  # it grows meanwhile
        for right in range(rights):
            if right in reachable or not matches(taker, right):
                continue
            reachable[right] = taker
            if right not in taken:
                return reachable
            takers.append(taken[right])
    return reachable


# Comparison of a test's expected rows with actual rows, cell by cell.
#
# Cells that an expected row does not name are not compared, with one exception: a tombstone must be expected as such.
# Fractions are equal up to a relative difference of 1e-9, as people write them with fewer digits. Whole numbers must be
# equal.

ABSENT = object()
"""The value of a cell that an actual row does not have: a column of a deleted row."""

_TOLERANCE = 1e-9

_WHOLE_TO = 1 << 53
"""Below this, doubles are dense enough that a whole one is meant to be whole."""

_Differ = Callable[[Cells, Cells], tuple[str, ...]]

Kind = Literal["same", "differs", "missing", "unexpected"]


@dataclass(frozen=True)
class Compared:
    """A row of a comparison. `missing`: expected, but not found; `unexpected`: the other way round.

    `number`, `place`: positions of the expected and of the actual row, from 0. `differing`: names of the cells that
    differ. `group`: equal for rows of one key.
    """

    kind: Kind
    expected: Cells | None
    found: Cells | None
    number: int | None = None
    differing: tuple[str, ...] = ()
    place: int | None = None
    group: str = ""


def equal(expected: Any, found: Any) -> bool:
    """Whether two values in JSON's form are equal; fractions within a tolerance."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, float) or isinstance(found, float):
        if not (isinstance(expected, int | float) and isinstance(found, int | float)):
            return False
        if all(abs(number) < _WHOLE_TO and number == int(number) for number in (expected, found)):
            return expected == found
        return math.isclose(expected, found, rel_tol=_TOLERANCE, abs_tol=0.0)
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return expected.keys() == found.keys() and all(equal(value, found[name]) for name, value in expected.items())
    if isinstance(expected, Sequence) and isinstance(found, Sequence) and not isinstance(expected, str):
        same = not isinstance(found, str) and len(expected) == len(found)
        return same and all(map(equal, expected, found))
    return bool(expected == found)


def differing(expected: Cells, found: Cells, deleted: str = "value") -> tuple[str, ...]:
    """Named cells of the expected row that differ in the actual row. `deleted`: the cell that is null in a tombstone.

    A tombstone differs from a row that is not expected to be one.
    """
    names = tuple(name for name, value in expected.items() if not equal(value, found.get(name, ABSENT)))
    only_found = deleted not in expected and found.get(deleted, ABSENT) is None
    return (deleted,) if only_found and not names else names


def compared(
    expected: Sequence[Cells],
    found: Sequence[Cells],
    key: Sequence[str],
    *,
    any_order: bool = False,
    contains: bool = False,
    deleted: str = "value",
) -> tuple[Compared, ...]:
    """Each expected row with its actual row, then unexpected rows.

    Rows are compared in order for each key. `key`: the cells of the key; those that all expected rows name decide which
    rows belong together. `any_order`: the order does not count. `contains`: unexpected rows are ignored. `deleted`: the
    cell that is null in a tombstone.
    """
    differ = partial(differing, deleted=deleted)
    shared = [name for name in key if expected and all(name in row for row in expected)]
    groups: dict[str, tuple[list[int], list[int]]] = {}
    for side, given in enumerate((expected, found)):
        for number, row in enumerate(given):
            groups.setdefault(_key(row, shared), ([], []))[side].append(number)
    pair: Callable[[Sequence[Cells], Sequence[Cells], _Differ], Pairs]
    pair = _in_any_order if any_order else _in_order
    rows: list[Compared] = []
    for group, (named, actual) in groups.items():
        pairs = pair([expected[number] for number in named], [found[number] for number in actual], differ)
        for left, right in pairs:
            place = None if right is None else actual[right]
            if left is not None or not contains:
                row_of_both = _compared(expected, found, None if left is None else named[left], place, differ)
                rows.append(replace(row_of_both, group=group))
    rows.sort(key=lambda row: (row.number is None, row.number or 0, row.place or 0))
    return tuple(rows)


def _compared(
    expected: Sequence[Cells], found: Sequence[Cells], number: int | None, place: int | None, differ: _Differ
) -> Compared:
    wanted_row = None if number is None else expected[number]
    actual = None if place is None else found[place]
    if wanted_row is None or actual is None:
        return Compared("unexpected" if wanted_row is None else "missing", wanted_row, actual, number, (), place)
    names = differ(wanted_row, actual)
    return Compared("differs" if names else "same", wanted_row, actual, number, names, place)


def _key(row: Cells, names: Sequence[str]) -> str:
    return repr([row.get(name) for name in names])


def _in_order(expected: Sequence[Cells], found: Sequence[Cells], differ: _Differ) -> Pairs:
    """Pairs in the order of both lists, with as many equal rows as possible."""
    return align(len(expected), len(found), lambda left, right: not differ(expected[left], found[right]))


def _in_any_order(expected: Sequence[Cells], found: Sequence[Cells], differ: _Differ) -> Pairs:
    """As many pairs of equal rows as possible. Other rows are paired with those that they are most like."""
    equals = best_matching(len(expected), len(found), lambda left, right: not differ(expected[left], found[right]))
    pairs: Pairs = [*equals.items()]
    unpaired = [number for number in range(len(found)) if number not in equals.values()]
    for number in range(len(expected)):
        if number in equals:
            continue
        closest = min(unpaired, key=lambda position: len(differ(expected[number], found[position])), default=None)
        pairs.append((number, closest))
        if closest is not None:
            unpaired.remove(closest)
    return [*pairs, *((None, number) for number in unpaired)]


# The rows that are compared with expected ones.


def last_of_each_key(records: Sequence[Record]) -> list[Record]:
    """The last record of each key, in their order. Records with a null key stay.

    With `emit: per_epoch`, only these do not depend on where epochs end.
    """
    last = {str(record.key): number for number, record in enumerate(records) if record.key is not None}
    return [record for number, record in enumerate(records) if record.key is None or last[str(record.key)] == number]


def cells_of_record(columns: Columns, record: Record) -> Cells:
    """A record as cells."""
    return cells_of(columns, asdict(record))


def cells_of_row(columns: Columns, row: Row) -> Cells:
    """A row of a store as cells."""
    return cells_of(columns, asdict(row))
