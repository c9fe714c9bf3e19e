"""Selectors, which name the topics and topologies of a command, with the syntax of dbt.

carrier_delays         a topic or topology by name; `*` and `?` are wildcards
tag:delays             by tag
path:topologies/daily  by file or folder
+hourly  2+hourly      and everything that feeds it, or only two steps up (a topology and each topic are a step)
hourly+  hourly+1      and everything that it feeds
a b                    both; several --select are the same
tag:x,path:y           only those in both
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from ..errors import HeadwaterError
from .diagnostics import did_you_mean
from .resources import Resource, Resources

_SELECTOR = re.compile(r"(?:(?P<up>\d*)\+)?(?:(?P<method>[a-z]+):)?(?P<what>[^+\s]+?)(?:\+(?P<down>\d*))?")


class SelectorError(HeadwaterError):
    """A selector that cannot be read or matches nothing: `selector`."""

    exit_code = 2

    def __init__(self, selector: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.selector = selector


class NoTopologyError(SelectorError):
    """A selector that matches topics only, for a command that works on topologies."""

    def __init__(self, selector: str) -> None:
        super().__init__(
            selector,
            f"there is no topology in what {selector!r} selects",
            "a topic's name selects the topic alone; + before it adds what writes it, + behind it what reads it",
        )


def select(resources: Resources, selectors: Iterable[str]) -> frozenset[str]:
    """Ids of the topics and topologies that any of the selectors matches; all of them if there is no selector.

    Raises SelectorError for a selector that is malformed, empty (as from an unset shell variable) or matches nothing.
    """
    given = list(selectors)
    if not given:
        return frozenset(resources.graph)
    words = [word for selector in given for word in selector.split() or [selector]]
    return frozenset().union(*(_intersection(resources, word) for word in words))


def _intersection(resources: Resources, word: str) -> frozenset[str]:
    found = frozenset.intersection(*(_one(resources, part) for part in word.split(",")))
    if not found:
        parts = " and ".join(map(repr, word.split(",")))
        raise SelectorError(word, f"nothing in the project answers to both {parts}", "a blank selects what is in any")
    return found


def _one(resources: Resources, selector: str) -> frozenset[str]:
    read = _SELECTOR.fullmatch(selector)
    if read is None:
        raise SelectorError(selector, f"{selector!r} is not a selector", "write a name, tag:x or path:x, maybe with +")
    method, what = read["method"] or "name", read["what"]
    candidates = resources.of("topic", "topology")
    found = {resource.id for resource in candidates if _answers(resource, method, what, selector)}
    if not found:
        hint = _meant(resources, what) if method == "name" else None
        otherwise = "`headwater ls` lists the names, with `--format json` also the tags"
        raise SelectorError(selector, f"nothing in the project answers to {selector!r}", hint or otherwise)
    parents = resources.graph
    if read["up"] is not None:
        found |= _reached(found, parents, read["up"])
    if read["down"] is not None:
        found |= _reached(found, _reversed(parents), read["down"])
    return frozenset(found)


def _meant(resources: Resources, what: str) -> str | None:
    """Names that are like one that nobody has; of a part, the topology that has it."""
    for part in resources.of("flow", "store", "table"):
        if what in (part.name, f"{part.topology}.{part.name}"):
            return f"It is a {part.kind} of topology '{part.topology}': select that."
    return did_you_mean(what, [resource.name for resource in resources.of("topic", "topology")])


def _answers(resource: Resource, method: str, what: str, selector: str) -> bool:
    if method == "name":
        return fnmatchcase(resource.name, what)
    if method == "tag":
        return any(fnmatchcase(tag, what) for tag in resource.tags)
    if method == "path":
        path = what.removeprefix("./").rstrip("/")
        return fnmatchcase(resource.file, path) or resource.file.startswith(f"{path}/")
    raise SelectorError(selector, f"there is no selector method {method!r}", "methods are tag: and path:")


def _reached(start: Iterable[str], edges: Mapping[str, tuple[str, ...]], steps: str) -> set[str]:
    """The ids reached from `start` within `steps` steps; without a number, all that can be reached."""
    reached: set[str] = set()
    edge, left = set(start), int(steps) if steps else len(edges)
    while edge and left > 0:
        edge = {neighbour for id_ in edge for neighbour in edges[id_]} - reached
        reached |= edge
        left -= 1
    return reached


def _reversed(edges: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    children: dict[str, list[str]] = {id_: [] for id_ in edges}
    for id_, parents in edges.items():
        for parent in parents:
            children[parent].append(id_)
    return {id_: tuple(found) for id_, found in children.items()}
