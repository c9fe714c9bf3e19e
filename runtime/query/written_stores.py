"""A store as its rows were written: the project may declare it otherwise by now, or under another name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from ..durations import parse_duration
from ..log.commit.descriptions import StoreDescription
from ..log.state import LogState
from ..topology import Agg, Store, StoreType
from ..windows import AnyWindow, JoinWindow, SessionWindow, SlidingWindow, Window


@dataclass(frozen=True)
class WrittenStore:
    """`store`: as it was committed, with its name then. `subtopology`: the one that had it then. `description`: what
    the commits say of it.
    """

    store: Store
    subtopology: str
    description: StoreDescription


def written_store(state: LogState, declared: Store, former: Iterable[str]) -> WrittenStore | None:
    """The store whose rows an application has; None if it has committed none of its name.

    `former`: names that the store had before, the last one first.
    """
    committed = state.topology
    name = next((each for each in (declared.name, *former) if each in committed.stores), None)
    owner = next((part for part, each in committed.subtopologies.items() if name in each.stores), None)
    if name is None or owner is None:
        return None
    found = committed.stores[name]
    if found == StoreDescription.of(declared):
        return WrittenStore(replace(declared, name=name), owner, found)
    return WrittenStore(_store(name, found, declared), owner, found)


def _store(name: str, found: StoreDescription, declared: Store) -> Store:
    """A store that gives the rows of a description. `declared`: has what no description says."""
    settings = found.settings or StoreDescription.of(declared).settings  # a log of before they were recorded
    kept = settings.get("retention", "forever")
    same_backend = settings.get("backend", declared.backend) == declared.backend
    return Store(
        name,
        found.partitions,
        found.key,
        found.value,
        cast(StoreType, found.type),
        _window(found, parse_duration(settings.get("grace", "0s"))),
        None if kept == "forever" else parse_duration(kept),
        tuple(
            Agg(each.name, each.function, None if each.of is None else each.name, each.of, options=each.options)
            for each in found.aggregates
        ),
        settings.get("backend", declared.backend),
        declared.options if same_backend else {},
        found.changelog,
    )


def _window(found: StoreDescription, grace: int) -> AnyWindow | JoinWindow | None:
    if found.within is not None:
        return JoinWindow(*found.within, grace)
    match found.window:
        case None:
            return None
        case (gap,):
            return SessionWindow(gap, grace)
        case (difference, 0):
            return SlidingWindow(difference, grace)
        case lengths:
            size, advance = lengths
            return Window(size, advance, grace)
