"""Sorts things by dependency: each comes after those that it needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

_Id = TypeVar("_Id", bound=Hashable)


def topological_order(
    needs: Mapping[_Id, Iterable[_Id]], on_circle: Callable[[list[_Id]], None] = lambda _: None
) -> list[_Id]:
    """The keys of `needs`, each after those that it needs, and otherwise in their order.

    Needed things that are no keys are ignored. `on_circle` is called with each circle found, in which each thing needs
    the next; the order of `needs` applies there.
    """
    ordered: dict[_Id, None] = {}
    for first in needs:
        # A stack of its own, because a chain may be longer than Python's calls may be deep.
        path: dict[_Id, Iterator[_Id]] = {} if first in ordered else {first: iter(needs[first])}
        while path:
            current, left = next(reversed(path.items()))
            needed = next((each for each in left if each in needs and each not in ordered), None)
            if needed is None:
                path.popitem()
                ordered[current] = None
            elif needed in path:
                ids = list(path)
                on_circle(ids[ids.index(needed) :])
            else:
                path[needed] = iter(needs[needed])
    return list(ordered)
