"""Checks whether a project still fits what is committed: compares this start's topology with the last start's.

A difference changes the meaning of committed positions, stores or topics. A new store is a difference too once records
have been consumed: it would miss the records read before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..log.descriptions import StoreDescription, TopologyDescription, UsedTopic

_Described = StoreDescription | UsedTopic

STORE_FACETS = {
    "partitions": "partition count",
    "type": "type",
    "key": "key",
    "value": "columns",
    "aggregates": "aggregates",
    "window": "window",
}
TOPIC_FACETS = {"partitions": "partition count", "key": "key", "value": "columns", "windowed": "windowed key"}


def differences(
    committed: TopologyDescription,
    current: TopologyDescription,
    consumed: bool,
    places: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Sentences, one for each difference.

    `consumed`: whether the application has consumed any record yet. `places`: store -> `file:line` of the step that
    works on it now. Topics fed from outside are compared by key and
    partition count only, if no global table holds them: a changed selection of their value columns does not touch what
    is committed.
    """
    if not committed.subtopologies or not consumed:
        return
    yield from _changed("store", committed.stores, current.stores, STORE_FACETS)
    yield from _kept_again(committed.stores, current.stores)
    yield from _moved(committed, current, places or {})
    yield from _read_by_others(_readers(committed), _readers(current))
    old, new = committed.topics, current.topics
    yield from _refreshed(old, new)
    yield from _written_by_others(old, new)
    fed = {name for name, topic in old.items() if topic.writer is None and not topic.global_}
    yield from _changed("topic", _without(old, fed), _without(new, fed), TOPIC_FACETS, added=False, removed=False)
    keyed = {facet: TOPIC_FACETS[facet] for facet in ("partitions", "key")}
    yield from _changed("topic", _only(old, fed), _only(new, fed), keyed, added=False, removed=False)


def _changed(
    what: str,
    old: Mapping[str, _Described],
    new: Mapping[str, _Described],
    facets: Mapping[str, str],
    *,
    added: bool = True,
    removed: bool = True,
) -> Iterator[str]:
    for name in sorted(old.keys() & new.keys()):
        for facet, word in facets.items():
            if getattr(old[name], facet) != getattr(new[name], facet):
                was, is_ = (_shown(each[name], facet) for each in (old, new))
                yield f"{what} {name}: {word} was {was}, is {is_}"
    if removed:
        yield from (f"{what} {name} is gone" for name in sorted(old.keys() - new.keys()))
    if added:
        yield from (
            f"{what} {name} is new, and would miss the records consumed before"
            for name in sorted(new.keys() - old.keys())
        )


def _kept_again(old: Mapping[str, StoreDescription], new: Mapping[str, StoreDescription]) -> Iterator[str]:
    for name in sorted(old.keys() & new.keys()):
        if new[name].changelog and not old[name].changelog:
            yield f"store {name}: its changelog was not kept so far, so the store could not be restored from it"


def _moved(old: TopologyDescription, new: TopologyDescription, places: Mapping[str, str]) -> Iterator[str]:
    """Stores that have moved to another subtopology, where they would continue other records, maybe with other keys.

    Subtopologies are compared by name: positions are kept by name, and numbers may change. If only the name is new,
    `_read_by_others` reports it. Nothing is found if the log does not say which subtopology had a store.
    """
    was, is_ = _kept_in(old), _kept_in(new)
    for name in sorted(was.keys() & is_.keys()):
        there, here = old.subtopologies[was[name]], new.subtopologies[is_[name]]
        if was[name] != is_[name] and set(there.sources) != set(here.sources):
            at = f"{places[name]}: " if name in places else ""
            yield (
                f"{at}store {name} was in subtopology {was[name]} (reads {', '.join(there.sources)}), and is in "
                f"{is_[name]} (reads {', '.join(here.sources)}) now: its rows were made of the records and keys there, "
                "and would stay as they are"
            )


def _kept_in(description: TopologyDescription) -> dict[str, str]:
    """Store -> the subtopology that keeps it."""
    return {store: name for name, part in description.subtopologies.items() for store in part.stores}


def _readers(description: TopologyDescription) -> dict[str, str]:
    """Topic -> the subtopology that reads it: all of a topology's readers of a topic are in one."""
    return {topic: name for name, part in description.subtopologies.items() for topic in part.sources}


def _read_by_others(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Topics that a subtopology of another name has read.

    Positions are kept by name: it would read all records again.
    """
    for topic in sorted(old.keys() & new.keys()):
        if old[topic] != new[topic]:
            yield f"topic {topic}: it was read by {old[topic]}, and {new[topic]} would read it again from its beginning"


def _refreshed(old: Mapping[str, UsedTopic], new: Mapping[str, UsedTopic]) -> Iterator[str]:
    for name in sorted(old.keys() & new.keys()):
        since = old[name].since
        now = new[name].since
        if None not in (since, now) and now != since:  # `positions` reports a topic that has lost its records
            yield f"topic {name} was fully refreshed after its records were consumed"


def _written_by_others(old: Mapping[str, UsedTopic], new: Mapping[str, UsedTopic]) -> Iterator[str]:
    """Topics that another application has written. Positions count the records of one writer."""
    for name in sorted(old.keys() & new.keys()):
        was, is_ = (topics[name].writer or "fed from outside" for topics in (old, new))
        if was != is_:
            yield f"topic {name}: its writer was {was}, is {is_}"


def _shown(described: _Described, facet: str) -> str:
    value = getattr(described, facet)
    if isinstance(described, StoreDescription):
        if facet == "aggregates":  # in the user's words, which logs of earlier versions lack
            earlier = (f"{each.name}: {each.function} of {each.of or 'rows'}" for each in described.aggregates)
            return ", ".join(described.shown or earlier)
        if facet == "window" and described.window is not None:
            return str(list(described.window))
    return "none" if value is None else str(value)


def _without(topics: Mapping[str, UsedTopic], names: set[str]) -> dict[str, UsedTopic]:
    return {name: topic for name, topic in topics.items() if name not in names}


def _only(topics: Mapping[str, UsedTopic], names: set[str]) -> dict[str, UsedTopic]:
    return {name: topic for name, topic in topics.items() if name in names}
