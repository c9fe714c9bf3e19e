"""Expected rows beside found ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from ..query.rows import Row
from ..records.record_json import Record
from .rows import Cells, Columns, cells_of

# Puts two lists side by side by which of their items fit.

Pairs = list[tuple[int | None, int | None]]
"""Numbers of both lists; None where one has nothing beside the other's."""

Fits = Callable[[int, int], bool]


def aligned(lefts: int, rights: int, fits: Fits) -> Pairs:
    """All items of both lists in their order, with as many pairs that fit as possible.

    Between these, items that do not fit stand side by side as long as both lists have some.
    """
    pairs: Pairs = []
    left = right = 0
    for to_left, to_right in [*_common(lefts, rights, fits), (lefts, rights)]:
        beside = min(to_left - left, to_right - right)
        pairs += [(left + n, right + n) for n in range(beside)]
        pairs += [(n, None) for n in range(left + beside, to_left)]
        pairs += [(None, n) for n in range(right + beside, to_right)]
        if to_left < lefts:
            pairs.append((to_left, to_right))
        left, right = to_left + 1, to_right + 1
    return pairs


def _common(lefts: int, rights: int, fits: Fits) -> Iterator[tuple[int, int]]:
    """A longest list of pairs that fit, in both orders."""
    start = 0
    while start < min(lefts, rights) and fits(start, start):
        yield start, start
        start += 1
    longest = [[0] * (rights - start + 1) for _ in range(lefts - start + 1)]
    for left in range(lefts - 1, start - 1, -1):
        for right in range(rights - 1, start - 1, -1):
            row, column = left - start, right - start
            with_both = longest[row + 1][column + 1] + 1 if fits(left, right) else 0
            longest[row][column] = max(longest[row + 1][column], longest[row][column + 1], with_both)
    left = right = start
    while left < lefts and right < rights:
        row, column = left - start, right - start
        if fits(left, right) and longest[row][column] == longest[row + 1][column + 1] + 1:
            yield left, right
            left, right = left + 1, right + 1
        elif longest[row + 1][column] >= longest[row][column + 1]:
            left += 1
        else:
            right += 1


def best_matching(lefts: int, rights: int, fits: Fits) -> dict[int, int]:
    """As many pairs that fit as possible, in any order: left -> right. Earlier items keep theirs if they can."""
    found: dict[int, int] = {}
    taken: dict[int, int] = {}
    for left in range(lefts):
        wanted = _wanted(left, rights, fits, taken)
        at = next((right for right in wanted if right not in taken), None)
        while at is not None:  # whoever wants it takes it, and leaves what it has had to the one before
            by = wanted[at]
            before = found.get(by)
            found[by], taken[at] = at, by
            at = before
    return found


def _wanted(left: int, rights: int, fits: Fits, taken: dict[int, int]) -> dict[int, int]:
    """What an item could take, and those could that would lose theirs to it, up to one that is free: right -> left."""
    wanted: dict[int, int] = {}
    asking = [left]
    for each in asking:  # it grows meanwhile
        for right in range(rights):
            if right in wanted or not fits(each, right):
                continue
            wanted[right] = each
            if right not in taken:
                return wanted
            asking.append(taken[right])
    return wanted


# Compares rows that a test expects with rows that were found, cell by cell.
#
# An expected row says what it names; cells that it does not name are not compared, but for one: a row that does not say
# that it is deleted is not. Numbers with a fraction are equal up to a relative difference of 1e-9, as people write them
# with fewer digits. Whole numbers are equal or not.

ABSENT = object()
"""The value of a cell that a found row does not have: a column of a row that was deleted."""

_TOLERANCE = 1e-9

_WHOLE_TO = 1 << 53
"""Below this, doubles are dense enough that a whole one is meant to be whole."""

_Differ = Callable[[Cells, Cells], tuple[str, ...]]

Kind = Literal["same", "differs", "missing", "unexpected"]


@dataclass(frozen=True)
class Compared:
    """A row of a comparison. `missing`: it was expected and is not there; `unexpected`: the other way round.

    `number`, `place`: of the expected row, and of the found one, from 0. `differing`: the names of the cells that
    differ. `group`: the same for rows of one key.
    """

    kind: Kind
    expected: Cells | None
    found: Cells | None
    number: int | None = None
    differing: tuple[str, ...] = ()
    place: int | None = None
    group: str = ""


def equal(expected: Any, found: Any) -> bool:
    """Whether two values in JSON's form are equal. Numbers with a fraction nearly are."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, float) or isinstance(found, float):
        if not (isinstance(expected, int | float) and isinstance(found, int | float)):
            return False
        if all(abs(each) < _WHOLE_TO and each == int(each) for each in (expected, found)):
            return expected == found
        return math.isclose(expected, found, rel_tol=_TOLERANCE, abs_tol=0.0)
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return expected.keys() == found.keys() and all(equal(value, found[name]) for name, value in expected.items())
    if isinstance(expected, Sequence) and isinstance(found, Sequence) and not isinstance(expected, str):
        same = not isinstance(found, str) and len(expected) == len(found)
        return same and all(map(equal, expected, found))
    return bool(expected == found)


def differing(expected: Cells, found: Cells, deleted: str = "value") -> tuple[str, ...]:
    """The cells that a row names and that are otherwise in the other. `deleted`: the cell that a tombstone has.

    A tombstone differs from a row that does not say that it is one.
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
    """Each expected row with the one that was found for it, then those that nobody expected.

    Rows come in order for each key. `key`: the cells of the key; what all expected rows name of it decides which rows
    belong together. `any_order`: the order does not count. `contains`: other rows may be there too. `deleted`: the
    cell that is null in a tombstone.
    """
    differ = partial(differing, deleted=deleted)
    shared = [name for name in key if expected and all(name in row for row in expected)]
    groups: dict[str, tuple[list[int], list[int]]] = {}
    for side, given in enumerate((expected, found)):
        for number, row in enumerate(given):
            groups.setdefault(_key(row, shared), ([], []))[side].append(number)
    pair: Callable[[Sequence[Cells], Sequence[Cells], _Differ], list[tuple[int | None, int | None]]]
    pair = _in_any_order if any_order else _in_order
    rows: list[Compared] = []
    for group, (wanted, there) in groups.items():
        pairs = pair([expected[number] for number in wanted], [found[number] for number in there], differ)
        for left, right in pairs:
            place = None if right is None else there[right]
            if left is not None or not contains:
                row_of_both = _compared(expected, found, None if left is None else wanted[left], place, differ)
                rows.append(replace(row_of_both, group=group))
    rows.sort(key=lambda each: (each.number is None, each.number or 0, each.place or 0))
    return tuple(rows)


def _compared(
    expected: Sequence[Cells], found: Sequence[Cells], number: int | None, place: int | None, differ: _Differ
) -> Compared:
    wanted = None if number is None else expected[number]
    there = None if place is None else found[place]
    if wanted is None or there is None:
        return Compared("unexpected" if wanted is None else "missing", wanted, there, number, (), place)
    names = differ(wanted, there)
    return Compared("differs" if names else "same", wanted, there, number, names, place)


def _key(row: Cells, names: Sequence[str]) -> str:
    return repr([row.get(name) for name in names])


def _in_order(
    expected: Sequence[Cells], found: Sequence[Cells], differ: _Differ
) -> list[tuple[int | None, int | None]]:
    """Pairs that keep both orders, with as many equal rows as there can be."""
    return aligned(len(expected), len(found), lambda left, right: not differ(expected[left], found[right]))


def _in_any_order(
    expected: Sequence[Cells], found: Sequence[Cells], differ: _Differ
) -> list[tuple[int | None, int | None]]:
    """Pairs of equal rows, as many as there can be; the others are put beside the ones that they are most like."""
    equals = best_matching(len(expected), len(found), lambda left, right: not differ(expected[left], found[right]))
    pairs: list[tuple[int | None, int | None]] = [*equals.items()]
    left_over = [number for number in range(len(found)) if number not in equals.values()]
    for number in range(len(expected)):
        if number in equals:
            continue
        likest = min(left_over, key=lambda there: len(differ(expected[number], found[there])), default=None)
        pairs.append((number, likest))
        if likest is not None:
            left_over.remove(likest)
    return [*pairs, *((None, number) for number in left_over)]


# The rows that a test compares with those that it expects.


def last_of_each_key(records: Sequence[Record]) -> list[Record]:
    """The last record of each key, in their order. Those with a null key stay.

    Of a table whose changes are collapsed, only these do not depend on where epochs end.
    """
    last = {str(record.key): number for number, record in enumerate(records) if record.key is not None}
    return [record for number, record in enumerate(records) if record.key is None or last[str(record.key)] == number]


def cells_of_record(columns: Columns, record: Record) -> Cells:
    """A record as cells."""
    return cells_of(columns, asdict(record))


def cells_of_row(columns: Columns, row: Row) -> Cells:
    """A row of a store as cells."""
    return cells_of(columns, asdict(row))
