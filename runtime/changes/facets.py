"""Comparison of the parts of stores, topics and settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from ..environment import duration_text
from ..ir.topology import CODE_OF, Topic
from ..log.commit.descriptions import (
    OPTIONS,
    StoreDescription,
    TopicDeclaration,
    TopologyDescription,
    with_separate_options,
)
from ..records.schema import ColumnChanges
from .model import UNDO, Change, Subject, SubjectKind, Verdict, Way, ways_back
from .normal_form import normal_form

TOPIC_KEY = ("partitions", "key")
"""The parts of a topic that decide the partition of a record."""

TOPIC_VALUE = ("columns", "windowed")
"""The other parts of a topic."""

_SUPPRESSED = {"window_changes": "that of `suppress` with `until`", "changes": "that of `suppress` with `for`"}
"""Types of stores that have no name in the YAML."""


@dataclass(frozen=True)
class Difference:
    """A part that differs. `facet`: its name. `what`: a sentence, `lines`: the diff."""

    facet: str
    what: str
    lines: tuple[str, ...] = ()


def store_differences(was: StoreDescription, is_: StoreDescription) -> Iterator[Difference]:
    """The differences between a committed store and its present declaration."""
    yield from _counted(was.partitions, is_.partitions)
    if was.type != is_.type:
        types = (_SUPPRESSED.get(store.type, store.type) for store in (was, is_))
        yield Difference("type", "its type was {}, is {}".format(*types))
    yield from _columns("key", "its key", was.key, is_.key)
    yield from _columns("columns", "its columns", was.value, is_.value)
    if was.aggregates != is_.aggregates:
        yield Difference("aggregates", "its aggregates changed", aggregate_lines(was, is_))
    if was.window != is_.window:
        yield Difference("window", f"its window was {window_text(was.window)}, is {window_text(is_.window)}")
    if was.within != is_.within:
        yield Difference("within", f"its join was {within_text(was.within)}, is {within_text(is_.within)}")
    kept = was.given_retention, is_.given_retention
    if None not in kept and kept[0] != kept[1]:
        yield Difference("retention", f"its retention was {kept[0]}, is {kept[1]}, and its rows are found by that")
    elif None not in kept and was.given_segment != is_.given_segment:
        then, now = (duration_text(store.given_segment or 0) for store in (was, is_))
        words = f"by {then} of time, this one does by {now}, in Kafka's order"
        yield Difference("layout", f"an earlier version of Headwater kept its rows {words}")


def topic_differences(
    was: TopicDeclaration, is_: TopicDeclaration, facets: Collection[str] = (*TOPIC_KEY, *TOPIC_VALUE)
) -> Iterator[Difference]:
    """The differences between a recorded topic and its present declaration, in these facets."""
    if "partitions" in facets:
        yield from _counted(was.partitions, is_.partitions)
    if "key" in facets:
        yield from _columns("key", "its key", was.key, is_.key)
    if "columns" in facets:
        yield from _columns("columns", "its columns", was.value, is_.value)
    if "windowed" in facets and was.windowed != is_.windowed:
        now = "has a window in its key now" if is_.windowed else "has no window in its key any more"
        yield Difference("windowed", f"it {now}")


def aggregate_lines(was: StoreDescription, is_: StoreDescription) -> tuple[str, ...]:
    """The diff of two stores' aggregates, as the user wrote them: `+ worst: max(delay)`."""
    old, new = _aggregates(was), _aggregates(is_)
    lines = (
        *(f"+ {name}: {new[name]}" for name in new if name not in old),
        *(f"- {name}: {old[name]}" for name in old if name not in new),
        *(
            f"~ {name}: {old[name]} -> {new[name]}"
            for name in old
            if name in new and normal_form(old[name]) != normal_form(new[name])
        ),
    )
    if lines or was.aggregates == is_.aggregates:
        return lines
    if list(old) != list(new):
        return ("~ the order of aggregates",)
    # The text is the same, but the types are not.
    types = {aggregate.name: aggregate.of for aggregate in was.aggregates}
    return tuple(
        f"~ {aggregate.name}: of {types.get(aggregate.name)} -> of {aggregate.of}"
        for aggregate in is_.aggregates
        if types.get(aggregate.name) != aggregate.of
    )


def other_expressions(was: StoreDescription, is_: StoreDescription) -> tuple[str, ...]:
    """The diff of aggregates in which only the expressions differ; empty if more differs."""
    if was.aggregates != is_.aggregates or not (was.shown and is_.shown):
        return ()
    return aggregate_lines(was, is_)


def window_text(window: tuple[int, ...] | None) -> str:
    """A window as in the YAML: `tumbling 1h`, `hopping 1d by 6h`, `session 30m`, `sliding 10s`; `none` without one.

    `window`: (gap,) of a session, (size, 0) of a sliding window, else (size, advance), in ms.
    """
    if window is None:
        return "none"
    if len(window) == 1:
        return f"session {duration_text(window[0])}"
    size, advance = window
    if not advance:
        return f"sliding {duration_text(size)}"
    if size == advance:
        return f"tumbling {duration_text(size)}"
    return f"hopping {duration_text(size)} by {duration_text(advance)}"


def within_text(within: tuple[int, int] | None) -> str:
    """The times of a join of streams as in the YAML: `within 10s`, `before 5s, after 10s`. `within`: in ms."""
    if within is None:
        return "none"
    before, after = map(duration_text, within)
    return f"within {before}" if before == after else f"before {before}, after {after}"


def _counted(was: int, is_: int) -> Iterator[Difference]:
    if was != is_:
        yield Difference("partitions", f"its partition count was {was}, is {is_}")


def _columns(facet: str, subject: str, was: str, is_: str) -> Iterator[Difference]:
    lines = ColumnChanges.between(was, is_).lines
    if lines:
        yield Difference(facet, f"{subject} changed", lines)


def _aggregates(store: StoreDescription) -> dict[str, str]:
    """Column -> its aggregate as the user wrote it; by function and type where the log is of an earlier version."""
    if store.shown:
        return dict(aggregate.split(": ", 1) for aggregate in store.shown)
    return {aggregate.name: f"{aggregate.function} of {aggregate.of or 'rows'}" for aggregate in store.aggregates}


# Settings whose changes leave the committed state as it is.

_FOLLOWS = {
    "on_error": "it applies to records that fail from now on",
    "cleanup": "it applies to all records",
    "retention": "it applies to all records",
    "timestamp": "it applies to records that are appended from now on",
    "emit": "it applies to records written from now on",
    "recomputed": "it applies when a result is rebuilt",
    "changelog cleanup": "the changelog is cleaned in that way from now on",
    "topic": "the table is loaded again",
    "backend": "clients restore the store",
    "restore": "stores that are restored from now on are restored in that way",
}
"""Setting -> effect of a change."""

_WAITING = "it applies from now on, also to changes that wait already"
"""The effect of all settings of `suppress`."""

_PLACING = "it applies to the next assignment of tasks"
"""The effect of all other settings of a topology, those of `assignment`."""

_UNSET = "none"

_OTHER_CODE = (
    "or one that it imports, has changed: its code applies from the next record on; stored rows and written records "
    "stay"
)


_OF_OLD_ROWS = (
    "; when a row of a table changes, its group would subtract the new code's value of the old row, not the value that "
    "was added"
)
"""The effect of other code in front of an aggregate of a table, or in it."""


def setting_changes(
    application: str, committed: TopologyDescription, current: TopologyDescription, places: Mapping[str, str]
) -> Iterator[Change]:
    """The changed settings of parts that existed before and exist now. `places`: store -> `file:line`."""
    old = with_separate_options(committed.settings, committed.stores)
    committed, new = replace(committed, settings=old), current.settings
    for name in new:
        kind, _, called = name.partition(" ")
        if kind == OPTIONS or (name not in old and not (kind == "flow" and called in committed.flows)):
            continue
        subject = Subject(cast("SubjectKind", kind), called or current.name, application)
        place = places.get(called) if kind == "store" else None
        was_code, is_code = _code(old.get(name, {})), _code(new[name])
        for function in is_code:
            if was_code.get(function, is_code[function]) != is_code[function]:
                yield _other_code(subject, function, current)
        for setting in _differing(old.get(name, {}), new[name]):
            if _told_otherwise(setting, old.get(name, {}), new[name]):
                continue
            what = _what(committed, current, name, setting)
            yield Change(f"{kind}.{setting.replace(' ', '_')}", subject, Verdict.COMPATIBLE, what, place=place)
        if kind == "store":
            was, is_ = (settings.get(f"{OPTIONS} {called}", {}) for settings in (old, new))
            for option in _differing(was, is_):
                then, now = was.get(option, _UNSET), is_.get(option, _UNSET)
                what = f"its option {option} was {then}, is {now}; stores are opened with it from now on"
                yield Change(f"store.option.{option}", subject, Verdict.COMPATIBLE, what, place=place)
    for name in old:
        if name.startswith("flow ") and name not in new and name[5:] in current.flows:
            for setting in old[name]:
                if _told_otherwise(setting, old[name], {}):
                    continue
                what = _what(committed, current, name, setting)
                yield Change(f"flow.{setting}", Subject("flow", name[5:], application), Verdict.COMPATIBLE, what)


def _other_code(subject: Subject, function: str, current: TopologyDescription) -> Change:
    change = Change("flow.code", subject, Verdict.COMPATIBLE, f"the module of {function}, {_OTHER_CODE}")
    if not any(function in step.text.split() for step in current.regrouping.get(subject.name, ())):
        return change
    _, again = ways_back(subject.application)
    way = replace(again, what=f"if it gives other results, {again.what}")
    return replace(change, what=f"{change.what}{_OF_OLD_ROWS}", ways=(way,))


def _what(committed: TopologyDescription, current: TopologyDescription, name: str, setting: str) -> str:
    was, is_ = (_value(description, name, setting) for description in (committed, current))
    if setting == "dead letters":
        kept = f"its failing records are kept in {is_} from now on"
        gone = f"; what {was} has stays" if was != _UNSET else ""
        return f"{kept if is_ != _UNSET else 'its failing records are not kept any more'}{gone}"
    follows = _WAITING if setting.startswith("suppress") else _FOLLOWS.get(setting, _PLACING)
    return f"its {setting} was {was}, is {is_}; {follows}"


def _told_otherwise(setting: str, was: Mapping[str, str], is_: Mapping[str, str]) -> bool:
    """Whether the changes of steps and stores report it already: another function, a `suppress` that was added, removed
    or has another form, or a flow that has become a table or was one.
    """
    only_one = (setting in was) != (setting in is_)
    return setting.startswith(CODE_OF) or (only_one and (setting == "emit" or setting.startswith("suppress")))


def _code(settings: Mapping[str, str]) -> dict[str, str]:
    """Python function -> the digest of its code."""
    return {name.removeprefix(CODE_OF): digest for name, digest in settings.items() if name.startswith(CODE_OF)}


def _differing(was: Mapping[str, str], is_: Mapping[str, str]) -> list[str]:
    """The settings whose values differ, present ones first."""
    return [setting for setting in dict.fromkeys((*is_, *was)) if was.get(setting) != is_.get(setting)]


def _value(description: TopologyDescription, name: str, setting: str) -> str:
    value = description.settings.get(name, {}).get(setting)
    if value is not None or not (name.startswith("flow ") and setting == "on_error"):
        return value or _UNSET
    # A flow without `on_error` has that of its source topics.
    parts = [part for part in description.subtopologies.values() if name[5:] in {step.flow for step in part.steps}]
    said = {
        description.settings.get(f"topic {topic}", {}).get("on_error", "fail")
        for part in parts
        for topic in part.sources
    }
    return said.pop() if len(said) == 1 else "that of its topic"


UNREADABLE = "its records cannot be read with its present columns"
COLUMNS_CHANGED = "its columns changed"
CATCH_UP = Way(
    "undo the change, let the topology catch up (headwater build), and then change it and continue",
    "headwater run --continue",
)


def columns_change(subject: Subject, was: TopicDeclaration, is_: Topic | TopicDeclaration) -> Change | None:
    """The change of a topic's value columns since records were committed; None without one.

    Committed records are not rewritten, but read with the present columns. An error has only UNDO as a way out: the
    caller adds others.
    """
    lines = ColumnChanges.between(was.value, is_.value).lines
    then, now = was.obstacles(is_)
    if "value" in then:
        wrong = ColumnChanges.between(then["value"], now["value"]).lines
        return Change("topic.columns", subject, Verdict.ERROR, UNREADABLE, wrong, ways=(UNDO,))
    if not lines:
        return None
    lacking = was.missing_columns(is_)
    what = f"{COLUMNS_CHANGED}; the earlier records {_read(lacking)}"
    return Change("topic.columns", subject, Verdict.COMPATIBLE, what, lines)


def _read(lacking: tuple[str, ...]) -> str:
    if not lacking:
        return "are read with the present ones"
    return f"have no {' and no '.join(lacking)}: null there"
