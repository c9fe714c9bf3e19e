"""Orders things so that each comes after those that it needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

_Id = TypeVar("_Id", bound=Hashable)


def needed_first(
    needs: Mapping[_Id, Iterable[_Id]], on_circle: Callable[[list[_Id]], None] = lambda _: None
) -> list[_Id]:
    """The keys of `needs`, each after those that it needs, else in their order; others that are needed are left out.

    `on_circle` gets each circle that is met, in which each needs the next; there the order is that of `needs`. Keeps
    its own stack: a chain may be longer than Python's calls may be deep.
    """
    ordered: dict[_Id, None] = {}
    for first in needs:
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
