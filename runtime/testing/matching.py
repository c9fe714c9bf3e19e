"""Puts two lists side by side by which of their items fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
