"""Does a project still fit what is committed? Compares the topology of the last start with that of this one.

A difference is something that would make committed positions, stores or topics mean something else. New stores are
differences too once records have been consumed: they would miss what was read before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

STORE_FACETS = {
    "partitions": "partition count",
    "type": "type",
    "key": "key",
    "value": "columns",
    "aggregates": "aggregates",
    "window": "window",
}
TOPIC_FACETS = {"partitions": "partition count", "key": "key", "value": "columns", "windowed": "windowed key"}


def differences(committed: Mapping[str, Any], current: Mapping[str, Any], consumed: bool) -> Iterator[str]:
    """Sentences, one for each difference. `committed` and `current` are descriptions as in a generation record.

    `consumed`: whether the application has consumed any record yet. Topics fed from outside are compared by key and
    partition count only, if no global table holds them: a changed selection of their value columns does not touch what
    is committed.
    """
    if not committed or not consumed:
        return
    yield from _changed("store", committed["stores"], current["stores"], STORE_FACETS)
    yield from _kept_anew(committed["stores"], current["stores"])
    yield from _read_by_others(_readers(committed), _readers(current))
    old, new = committed["topics"], current["topics"]
    yield from _begun_anew(old, new)
    yield from _written_by_others(old, new)
    fed = {name for name, topic in old.items() if topic["writer"] is None and not topic.get("global")}
    yield from _changed("topic", _without(old, fed), _without(new, fed), TOPIC_FACETS, added=False, removed=False)
    keyed = {facet: TOPIC_FACETS[facet] for facet in ("partitions", "key")}
    yield from _changed("topic", _only(old, fed), _only(new, fed), keyed, added=False, removed=False)


def _changed(
    what: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    facets: Mapping[str, str],
    *,
    added: bool = True,
    removed: bool = True,
) -> Iterator[str]:
    for name in sorted(old.keys() & new.keys()):
        for facet, word in facets.items():
            if old[name][facet] != new[name][facet]:
                was, is_ = (_text(_shown(each[name], facet)) for each in (old, new))
                yield f"{what} {name}: {word} was {was}, is {is_}"
    if removed:
        yield from (f"{what} {name} is gone" for name in sorted(old.keys() - new.keys()))
    if added:
        yield from (
            f"{what} {name} is new, and would miss the records consumed before"
            for name in sorted(new.keys() - old.keys())
        )


def _kept_anew(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(old.keys() & new.keys()):
        if new[name]["changelog"] and not old[name]["changelog"]:
            yield f"store {name}: its changelog was not kept so far, so the store could not be restored from it"


def _readers(description: Mapping[str, Any]) -> dict[str, str]:
    """Topic -> the subtopology that reads it: all of a topology's readers of a topic are in one."""
    return {topic: name for name, part in description["subtopologies"].items() for topic in part["sources"]}


def _read_by_others(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Positions are kept by subtopology: one of another name would read a topic, and count its records, once more."""
    for topic in sorted(old.keys() & new.keys()):
        if old[topic] != new[topic]:
            yield f"topic {topic}: it was read by {old[topic]}, and {new[topic]} would read it again from its beginning"


def _begun_anew(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(old.keys() & new.keys()):
        since = old[name].get("since")
        now = new[name]["since"]
        if None not in (since, now) and now != since:  # one without records any more is for `positions` to tell
            yield f"topic {name} was started anew after its records were consumed"


def _written_by_others(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Positions count the records of one writer."""
    for name in sorted(old.keys() & new.keys()):
        was, is_ = (topics[name]["writer"] or "fed from outside" for topics in (old, new))
        if was != is_:
            yield f"topic {name}: its writer was {was}, is {is_}"


def _shown(described: Mapping[str, Any], facet: str) -> Any:
    """Aggregates in the user's words, as far as the description has them: earlier versions kept none."""
    if facet != "aggregates":
        return described[facet]
    earlier = (f"{name}: {function} of {of or 'rows'}" for name, function, of, _ in described[facet])
    return ", ".join(described.get("shown") or earlier)


def _text(value: Any) -> str:
    return "none" if value is None else str(value)


def _without(topics: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: topic for name, topic in topics.items() if name not in names}


def _only(topics: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: topic for name, topic in topics.items() if name in names}
