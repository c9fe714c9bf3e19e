"""What decides a result that is computed again, so that one which was begun on something else is not gone on with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from ...dataclass_json import to_plain
from ...log.descriptions import TopologyDescription
from ...log.placed.places import Places
from ...log.state import LogState
from ...topology import Topology
from .groups import writers_of
from .repartition import fed_topics


def contents_of(group: Sequence[Topology], places: Places, seeds: LogState) -> dict[str, str]:
    """Application -> a digest of all that decides its result: what it computes, what those compute whose results it
    reads, as far as they are computed again with it, and in which places all others are that it reads.

    A result that was begun on other input than this is worth nothing: its positions count other records. `seeds`: of
    what is fed from outside.
    """
    own = {each.application: content_of(each, seeds) for each in group}
    writers = {each.application: writers_of(each) for each in group}
    found: dict[str, str] = {}
    for name in own:
        above = {name}
        while more := {writer for each in above & own.keys() for writer in writers[each]} - above:
            above |= more
        made_of = {each: own.get(each) or places.of(each) for each in above}
        found[name] = _digest([own[name], made_of])
    return found


def content_of(topology: Topology, seeds: LogState) -> str:
    """A digest of all that decides what a topology computes, and of where records are that were put elsewhere."""
    fed = [seeds.topics[name] for name in sorted(fed_topics(topology)) if name in seeds.topics]
    begun = {each.name: each.since for each in fed if each.moved and each.since is not None}
    return _digest(to_plain(replace(TopologyDescription.of(topology, begun), version="")))


def _digest(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
