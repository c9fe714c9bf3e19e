"""The parts of a store and of a topic that are compared, and how their differences read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..durations import duration_text
from ..log.commit.descriptions import StoreDescription, TopicDeclaration
from ..records.column_changes import ColumnChanges
from .normal_form import normal_form

TOPIC_KEY = ("partitions", "key")
"""What decides where a record of a topic lies."""

TOPIC_VALUE = ("columns", "windowed")
"""What else decides what a record of a topic is."""

_SUPPRESSED = {"window_changes": "that of `suppress` with `until`", "changes": "that of `suppress` with `for`"}
"""Types of stores that no file can name."""


@dataclass(frozen=True)
class Difference:
    """`facet`: which part differs. `what`: a sentence, `lines`: a diff below it."""

    facet: str
    what: str
    lines: tuple[str, ...] = ()


def store_differences(was: StoreDescription, is_: StoreDescription) -> Iterator[Difference]:
    """What differs between a store as it was committed and as it is declared now."""
    yield from _counted(was.partitions, is_.partitions)
    if was.type != is_.type:
        types = (_SUPPRESSED.get(each.type, each.type) for each in (was, is_))
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
        then, now = (duration_text(each.given_segment or 0) for each in (was, is_))
        words = f"by {then} of time, this one does by {now}, in Kafka's order"
        yield Difference("layout", f"an earlier version of Headwater kept its rows {words}")


def topic_differences(
    was: TopicDeclaration, is_: TopicDeclaration, facets: Collection[str] = (*TOPIC_KEY, *TOPIC_VALUE)
) -> Iterator[Difference]:
    """What differs between a topic as it was recorded and as it is declared now, of these facets."""
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
    """The diff of two stores' aggregates, in the user's words: `+ worst: max(delay)`."""
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
    # The same words mean something else: of another type.
    types = {each.name: each.of for each in was.aggregates}
    return tuple(
        f"~ {each.name}: of {types.get(each.name)} -> of {each.of}"
        for each in is_.aggregates
        if types.get(each.name) != each.of
    )


def other_expressions(was: StoreDescription, is_: StoreDescription) -> tuple[str, ...]:
    """The diff of aggregates that are computed as before, of another expression; nothing if more than that differs."""
    if was.aggregates != is_.aggregates or not (was.shown and is_.shown):
        return ()
    return aggregate_lines(was, is_)


def window_text(window: tuple[int, ...] | None) -> str:
    """A window in the words of the YAML: `tumbling 1h`, `hopping 1d by 6h`, `session 30m`, `sliding 10s`; `none` for a
    store without one.
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
    """The times of a join of streams in the words of the YAML: `within 10s`, `before 5s, after 10s`."""
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
        return dict(each.split(": ", 1) for each in store.shown)
    return {each.name: f"{each.function} of {each.of or 'rows'}" for each in store.aggregates}
