"""Compares the steps of flows.

A result that other steps have made is computed again, or stays as it is while the new ones count from the next record
on. Some changes need neither: a new flow whose subtopology has not read anything, and most that are gone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ..ir.topology import StepText, StoreFiller
from ..log.commit.descriptions import TopologyDescription
from ..log.state_parts.renamed import renamed_step
from .model import Change, Subject, Verdict, ways_back, ways_onward
from .normal_form import normal_form

STAYS = "what is there stays as it is"

REGROUPED = "when a row of a table changes, they would take something else out of its group than was added"
"""Why an aggregate of a table cannot go on with other steps before it."""

RENAMED = "flow.renamed"
"""The kind of a change: a flow has another name, and the same steps."""

_READS = "from flow "
"""How the step begins that says which flow is read. Older logs, which have no settings either, lack it."""

_WRITES = "to "

_ASKS = re.compile(r"(?:inner|left) join by (?P<of>.*)", re.DOTALL)
"""A join by a foreign key, which keeps subscriptions: the columns of a row that say which other row it asks for."""

_JOINS_STREAM = re.compile(r"(?P<before>\w+ join stream )(?:\w+\.)?(?P<of>\w+)(?P<after>, values .*)", re.DOTALL)
"""A step that keeps records of another stream. Its edge is named after its reader too, where that has several."""


def flow_changes(application: str, committed: TopologyDescription, current: TopologyDescription) -> Iterator[Change]:
    """The flows whose steps have changed. Nothing is found in a log whose version did not record steps."""
    old, new = _flows(committed), _flows(current)
    if not old:
        return
    if not committed.settings and not any(map(_reads, chain.from_iterable(old.values()))):  # an older log
        new = {name: [each for each in steps if not _reads(each)] for name, steps in new.items()}
    gone, come = _without(_ways(old), _ways(new)), _without(_ways(new), _ways(old))
    if bool(gone) != bool(come):  # all others are as they were, even if they share fewer or more steps
        for name in _told(_with_writers(gone, old, new), old):
            yield _removed(Subject("flow", name, application), old[name], current)
        for name in _told(_with_writers(come, new, old), new):
            place = _place(new[name], new)
            yield _added(Subject("flow", name, application), place, committed, current)
        return
    old, new = _folded_alike(old, new), _folded_alike(new, old)
    names = {name: _former(name, old, new) for name in new}
    renamed = {was: is_ for is_, was in names.items() if was}
    old = {name: [renamed_step(each, renamed, of_flow=False) for each in steps] for name, steps in old.items()}
    grouping = {name: [renamed_step(each, renamed) for each in steps] for name, steps in committed.regrouping.items()}
    for name in dict.fromkeys((*new, *(each for each in old if each not in names.values()))):
        subject, is_ = Subject("flow", name, application), new.get(name, ())
        place = _place(is_, new)
        if former := names.get(name):
            yield Change(RENAMED, subject, Verdict.COMPATIBLE, f"it was called {former} so far", place=place)
        elif not _told([name], new if name in new else old):
            continue
        elif name not in old:
            yield _added(subject, place, committed, current)
        elif name not in new:
            yield _removed(subject, old[name], current)
        elif _forms(old[name]) != _forms(is_):
            regrouped = _forms(grouping.get(name, ())) != _forms(current.regrouping.get(name, ()))
            yield _changed(subject, old[name], is_, place, regrouped)


def _folded_alike(
    flows: Mapping[str, list[StepText]], others: Mapping[str, Sequence[StepText]]
) -> dict[str, list[StepText]]:
    """The flows, of which some are one with the flow that they read, as they are among the others.

    The steps of a flow with a single reader are one with those of the reader. So they change hands when a second reader
    comes or goes, which is no change of theirs.
    """
    read = {each.text for steps in others.values() for each in steps}
    found = dict(flows)
    for name, (first, *steps) in ((name, each) for name, each in flows.items() if each and name not in others):
        above = first.text.removeprefix(_READS)
        if first.text in read or above not in found or above not in others:
            continue
        folded = [*found[above], *steps]
        if _forms(folded) == _forms(others[above]):
            found[above] = folded
            del found[name]
    return found


def _told(names: Sequence[str], flows: Mapping[str, Sequence[StepText]]) -> list[str]:
    """Without the edges by which a flow reads another flow or table: they come and go with the steps of flows."""
    return [each for each in names if "." not in each or not all(map(_reads, flows[each]))]


def _reads(step: StepText) -> bool:
    return step.text.startswith(_READS)


def _changed(
    subject: Subject, was: Sequence[StepText], is_: Sequence[StepText], place: str | None, regrouped: bool
) -> Change:
    """A flow with other steps. It cannot go on with them where they would mistake what stores hold. `regrouped`:
    whether rows are added to other groups.
    """
    lines, first = _diff(was, is_)
    onward = f"they count from the next record on; {STAYS}"
    found = _onward("flow.steps", subject, "its steps changed", onward, first or place, lines)
    if _captured(_ASKS, was) != _captured(_ASKS, is_):
        reason = "rows ask for others by now, and what they have asked for so far would still answer them"
    elif _captured(_JOINS_STREAM, was) != _captured(_JOINS_STREAM, is_):
        reason = "another stream is joined, and the records of the one before would be taken for its own"
    elif regrouped:
        reason = REGROUPED
    else:
        return found
    return replace(found, what=f"{found.what}: {reason}", ways=ways_back(subject.application), onward="")


def _forms(steps: Sequence[StepText]) -> list[tuple[str, ...]]:
    return [normal_form(each.text) for each in steps]


def _captured(form: re.Pattern[str], steps: Sequence[StepText]) -> list[tuple[str, ...]]:
    """What the steps of a form name, in words, in order."""
    return [normal_form(found["of"]) for each in steps if (found := form.fullmatch(each.text))]


def _flows(description: TopologyDescription) -> dict[str, list[StepText]]:
    """Flow or table -> its steps. An edge by which a flow reads the topic that it joins is the flow's own."""
    flows = description.flows
    found = {name: [_by_stream(step) for step in steps] for name, steps in flows.items()}
    for name, steps in flows.items():
        flow, dot, _ = name.partition(".")
        if dot and flow in flows and all(each.text == f"from {name[len(flow) + 1 :]}" for each in steps):
            found[flow] += (replace(each, flow=flow) for each in found.pop(name))
    return found


def _by_stream(step: StepText) -> StepText:
    found = _JOINS_STREAM.fullmatch(step.text)
    return replace(step, text=f"{found['before']}{found['of']}{found['after']}") if found else step


def _place(steps: Sequence[StepText], flows: Mapping[str, Sequence[StepText]]) -> str | None:
    """Where a flow is: at its first step. What several flows read together is said to be where the first of them is."""
    flows_at = Counter(at for each in flows.values() for at in {step.at for step in each})
    return next((each.at for each in steps if each.at and flows_at[each.at] == 1), None)


def _added(subject: Subject, place: str | None, committed: TopologyDescription, current: TopologyDescription) -> Change:
    """A new flow. It is behind the others if its subtopology has read records, or if a topic has some that it lacks."""
    written = committed.written
    for name, part in current.subtopologies.items():
        if any(step.flow == subject.name for step in part.steps) and (
            name in committed.subtopologies or written.intersection(part.sinks)
        ):
            return _onward("flow.added", subject, "it is new", f"it begins with the next record; {STAYS}", place)
    what = "it is new, and begins with the first record that is there"
    return Change("flow.added", subject, Verdict.COMPATIBLE, what, place=place)


def _removed(subject: Subject, was: Sequence[StepText], current: TopologyDescription) -> Change:
    """A flow that is gone. Nobody adds to what it alone has written; elsewhere its records are among others."""
    if shared := [topic for topic in filter(None, map(topic_written, was)) if topic in current.written]:
        what = f"it is gone, and {', '.join(shared)} is still written"
        return _onward("flow.removed", subject, what, "the records that it has written stay")
    return Change("flow.removed", subject, Verdict.COMPATIBLE, f"it is gone; {STAYS}")


def _onward(
    kind: str, subject: Subject, what: str, onward: str, place: str | None = None, lines: tuple[str, ...] = ()
) -> Change:
    ways = ways_onward(subject.application)
    return Change(kind, subject, Verdict.ERROR, what, lines, place, ways, onward=onward)


def fillers(committed: TopologyDescription, current: TopologyDescription) -> Iterator[tuple[str, str, str]]:
    """The stores whose rows something else writes by now: store, what wrote them, what does now.

    Nothing is found in a log whose version did not record it.
    """
    old, new = committed.flows, current.flows
    was, is_ = _fillers(committed), _fillers(current)
    for store in sorted(was.keys() & is_.keys()):
        then, now = was[store], is_[store]
        flow = now.flow if now.flow in old else _former(now.flow, old, new) or now.flow
        if (then.flow, then.number) != (flow, now.number):
            yield store, _filler_text(then), _filler_text(now)


def _fillers(description: TopologyDescription) -> dict[str, StoreFiller]:
    return {each.store: each for part in description.subtopologies.values() for each in part.fillers}


def _filler_text(filler: StoreFiller) -> str:
    return filler.flow if filler.number == 1 else f"step {filler.number} of {filler.flow} that keeps rows"


def _former(name: str, old: Mapping[str, Sequence[StepText]], new: Mapping[str, Sequence[StepText]]) -> str | None:
    """The name that a new flow has had so far: that of a flow with the same steps which is gone."""
    if name in old:
        return None
    steps = _forms(new.get(name, ()))
    return next((each for each in old if each not in new and _forms(old[each]) == steps), None)


def _ways(flows: Mapping[str, Sequence[StepText]]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """What becomes of records from where they are read to the end of each flow that no other flow reads.

    Two flows share the steps of the flow that both read. Where one is left, all of these steps are of that flow.
    """

    def way(name: str, behind: frozenset[str] = frozenset()) -> tuple[tuple[str, ...], ...]:
        found: list[tuple[str, ...]] = []
        for step in flows.get(name, ()):
            before = step.text.removeprefix(_READS) if step.text.startswith(_READS) else None
            if before is not None and before not in behind:
                found.extend(way(before, behind | {name}))
            else:
                found.append(normal_form(step.text))
        return tuple(found)

    read = {
        each.text.removeprefix(_READS) for steps in flows.values() for each in steps if each.text.startswith(_READS)
    }
    return {name: way(name) for name in flows if name not in read}


def _without(
    ways: Mapping[str, tuple[Sequence[str], ...]], others: Mapping[str, tuple[Sequence[str], ...]]
) -> list[str]:
    """The flows whose ways none of the others has. Of several with the same way, as many as the others have go."""
    left = list(others.values())
    found = []
    for name, way in ways.items():
        if way in left:
            left.remove(way)
        else:
            found.append(name)
    return found


def _with_writers(
    found: Sequence[str], flows: Mapping[str, Sequence[StepText]], others: Mapping[str, Sequence[StepText]]
) -> list[str]:
    """These flows, and those that are read by some of them and write a topic that none of the `others` writes for them.

    In the order of the file. None, if there are no flows to begin with.
    """
    rest = {name: steps for name, steps in flows.items() if name not in found}
    alone = Counter(map(topic_written, _steps(rest))) - Counter(map(topic_written, _steps(others)))
    more = {name for name in rest if name not in others and any(topic_written(each) in alone for each in rest[name])}
    return [name for name in flows if name in found or (found and name in more)]


def _steps(flows: Mapping[str, Sequence[StepText]]) -> Iterator[StepText]:
    return (each for steps in flows.values() for each in steps if each.text.startswith(_WRITES))


def topic_written(step: StepText) -> str | None:
    """The topic that a step writes, if it writes one."""
    return step.text.removeprefix(_WRITES) if step.text.startswith(_WRITES) else None


def _diff(was: Sequence[StepText], is_: Sequence[StepText]) -> tuple[tuple[str, ...], str | None]:
    """The lines of the diff, and the place of the first step that is new."""
    forms = {normal_form(each.text): each.text for each in (*is_, *was)}
    old, new = Counter(_forms(was)), Counter(_forms(is_))
    gone, come = old - new, new - old
    lines = (*(f"- {forms[form]}" for form in gone.elements()), *(f"+ {forms[form]}" for form in come.elements()))
    first = next((each.at for each in is_ if normal_form(each.text) in come and each.at), None)
    return lines or ("~ the order of steps",), first
