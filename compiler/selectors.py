"""Selectors of topics and topologies for commands, with the syntax of dbt.

carrier_delays         a topic or topology by name; `*` and `?` are wildcards
tag:delays             by tag
path:topologies/daily  by file or folder
+hourly  2+hourly      and everything upstream, or only two steps up (a topology or a topic is one step)
hourly+  hourly+1      and everything downstream
a b                    the union; several --select are the same
tag:x,path:y           the intersection
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
    """`selector` is malformed or matches nothing."""

    exit_code = 2

    def __init__(self, selector: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.selector = selector


class NoTopologyError(SelectorError):
    """A selector that matches topics only, for a command that works on topologies."""

    def __init__(self, selector: str) -> None:
        super().__init__(
            selector,
            f"{selector!r} selects no topology",
            "a topic's name selects the topic alone; + before it adds its writers, + behind it its readers",
        )


def select(resources: Resources, selectors: Iterable[str]) -> frozenset[str]:
    """Ids of the topics and topologies that any of the selectors matches; all of them without selectors.

    Raises SelectorError for a selector that is malformed, empty (as from an unset shell variable) or without a match.
    """
    given = list(selectors)
    if not given:
        return frozenset(resources.graph)
    words = [word for selector in given for word in selector.split() or [selector]]
    return frozenset().union(*(_intersection(resources, word) for word in words))


def _intersection(resources: Resources, word: str) -> frozenset[str]:
    selected = frozenset.intersection(*(_one(resources, part) for part in word.split(",")))
    if not selected:
        parts = " and ".join(map(repr, word.split(",")))
        raise SelectorError(word, f"nothing in the project matches both {parts}", "use a blank for the union")
    return selected


def _one(resources: Resources, selector: str) -> frozenset[str]:
    match = _SELECTOR.fullmatch(selector)
    if match is None:
        raise SelectorError(selector, f"{selector!r} is not a selector", "write a name, tag:x or path:x, maybe with +")
    method, what = match["method"] or "name", match["what"]
    candidates = resources.of_kinds("topic", "topology")
    selected = {resource.id for resource in candidates if _matches(resource, method, what, selector)}
    if not selected:
        hint = _similar(resources, what) if method == "name" else None
        otherwise = "`headwater ls` lists the names, with `--format json` also the tags"
        raise SelectorError(selector, f"nothing in the project matches {selector!r}", hint or otherwise)
    parents = resources.graph
    if match["up"] is not None:
        selected |= _reached(selected, parents, match["up"])
    if match["down"] is not None:
        selected |= _reached(selected, _reversed(parents), match["down"])
    return frozenset(selected)


def _similar(resources: Resources, what: str) -> str | None:
    """A hint for an unknown name: similar names, or the topology of a flow, store or table with the name."""
    for part in resources.of_kinds("flow", "store", "table"):
        if what in (part.name, f"{part.topology}.{part.name}"):
            return f"It is a {part.kind} of topology '{part.topology}': select the topology."
    return did_you_mean(what, [resource.name for resource in resources.of_kinds("topic", "topology")])


def _matches(resource: Resource, method: str, what: str, selector: str) -> bool:
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
    return {id_: tuple(ids) for id_, ids in children.items()}
