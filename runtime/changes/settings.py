"""Compares settings that change nothing of what is committed: what they were, what they are, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from ..log.commit.described_settings import OPTIONS, with_options_apart
from ..log.commit.descriptions import TopologyDescription
from ..topology import CODE_OF
from .model import Change, Subject, SubjectKind, Verdict
from .ways import ways_back

_FOLLOWS = {
    "on_error": "it counts for records that fail from now on",
    "cleanup": "it counts for all records that are there",
    "retention": "it counts for all records that are there",
    "timestamp": "it counts for records that come from now on",
    "emit": "it counts for what is written from now on",
    "changelog cleanup": "the changelog is cleaned in that way from now on",
    "topic": "the table is loaded again",
    "backend": "clients make the store again",
    "restore": "stores that are restored from now on are restored in that way",
}
"""Setting -> what follows if it changes."""

_WAITING = "it counts from now on, also for changes that wait already"
"""The same, of all settings of `suppress`."""

_PLACING = "it counts for the next assignment of tasks"
"""The same, of any other setting of a topology: those of `assignment`."""

_UNSAID = "none"

_OTHER_CODE = (
    "or one that it imports, has changed: its code counts from the next record on; what is stored and written stays as "
    "the code of before has made it"
)


_OF_A_ROW_OF_BEFORE = (
    "; when a row of a table changes, its group would lose what the new code makes of the row of before, not what was "
    "added"
)
"""The same, where the code is before an aggregate of a table, or is one."""


def setting_changes(
    application: str, committed: TopologyDescription, current: TopologyDescription, places: Mapping[str, str]
) -> Iterator[Change]:
    """The settings that have changed of what was there before and is there now. `places`: of stores."""
    old = with_options_apart(committed.settings, committed.stores)
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
            was, is_ = (each.get(f"{OPTIONS} {called}", {}) for each in (old, new))
            for option in _differing(was, is_):
                then, now = was.get(option, _UNSAID), is_.get(option, _UNSAID)
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
    found = Change("flow.code", subject, Verdict.COMPATIBLE, f"the module of {function}, {_OTHER_CODE}")
    if not any(function in each.text.split() for each in current.regrouping.get(subject.name, ())):
        return found
    _, again = ways_back(subject.application)
    way = replace(again, what=f"if it gives other results, {again.what}")
    return replace(found, what=f"{found.what}{_OF_A_ROW_OF_BEFORE}", ways=(way,))


def _what(committed: TopologyDescription, current: TopologyDescription, name: str, setting: str) -> str:
    was, is_ = (_value(each, name, setting) for each in (committed, current))
    if setting == "dead letters":
        kept = f"records of it that fail are kept in {is_} from now on"
        gone = f"; what {was} has stays" if was != _UNSAID else ""
        return f"{kept if is_ != _UNSAID else 'records of it that fail are not kept any more'}{gone}"
    follows = _WAITING if setting.startswith("suppress") else _FOLLOWS.get(setting, _PLACING)
    return f"its {setting} was {was}, is {is_}; {follows}"


def _told_otherwise(setting: str, was: Mapping[str, str], is_: Mapping[str, str]) -> bool:
    """Whether the steps and stores tell of it: that another function is named, that `suppress` is new, gone, or waits
    for something else, or that a flow has become a table, or is none any more.
    """
    only_one = (setting in was) != (setting in is_)
    return setting.startswith(CODE_OF) or (only_one and (setting == "emit" or setting.startswith("suppress")))


def _code(settings: Mapping[str, str]) -> dict[str, str]:
    """Python function -> the digest of its code."""
    return {name.removeprefix(CODE_OF): digest for name, digest in settings.items() if name.startswith(CODE_OF)}


def _differing(was: Mapping[str, str], is_: Mapping[str, str]) -> list[str]:
    """The settings whose values differ, those of now first."""
    return [setting for setting in dict.fromkeys((*is_, *was)) if was.get(setting) != is_.get(setting)]


def _value(description: TopologyDescription, name: str, setting: str) -> str:
    found = description.settings.get(name, {}).get(setting)
    if found is not None or not (name.startswith("flow ") and setting == "on_error"):
        return found or _UNSAID
    # A flow that does not say it does what the topics say that it reads.
    parts = [part for part in description.subtopologies.values() if name[5:] in {step.flow for step in part.steps}]
    said = {
        description.settings.get(f"topic {topic}", {}).get("on_error", "fail")
        for part in parts
        for topic in part.sources
    }
    return said.pop() if len(said) == 1 else "that of its topic"
