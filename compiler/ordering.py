"""Topological order: an item comes after the items that it needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

_Id = TypeVar("_Id", bound=Hashable)


def topological_order(
    needs: Mapping[_Id, Iterable[_Id]], on_cycle: Callable[[list[_Id]], None] = lambda _: None
) -> list[_Id]:
    """The keys of `needs`, after the keys that they need, and otherwise in their order.

    Needed items that are not keys are ignored. `on_cycle` is called with each cycle found, in which an item needs the
    next one; the cycle keeps the order of `needs`.
    """
    ordered: dict[_Id, None] = {}
    for first in needs:
        # An explicit stack, because a chain may be longer than Python's limit of recursion.
        path: dict[_Id, Iterator[_Id]] = {} if first in ordered else {first: iter(needs[first])}
        while path:
            current, left = next(reversed(path.items()))
            needed = next((item for item in left if item in needs and item not in ordered), None)
            if needed is None:
                path.popitem()
                ordered[current] = None
            elif needed in path:
                ids = list(path)
                on_cycle(ids[ids.index(needed) :])
            else:
                path[needed] = iter(needs[needed])
    return list(ordered)
