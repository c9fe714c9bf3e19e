"""Compares the steps of flows.

After a change of steps the result is rebuilt, or it stays and the new steps apply from the next record on. Some changes
need neither: a new flow in a subtopology that has not read anything, and most removed flows.
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

STAYS = "existing results stay"

REGROUPED = "when a row of a table changes, they would subtract another value from its group than was added"
"""Why an aggregate of a table cannot continue with other steps in front of it."""

RENAMED = "flow.renamed"
"""The kind of a change: a flow has another name, and the same steps."""

_READS = "from flow "
"""The start of a step that reads a flow. Older logs, which have no settings either, lack it."""

_WRITES = "to "

_ASKS = re.compile(r"(?:inner|left) join by (?P<of>.*)", re.DOTALL)
"""A foreign-key join, which stores subscriptions: the columns of a row that identify the row to which it subscribes."""

_JOINS_STREAM = re.compile(r"(?P<before>\w+ join stream )(?:\w+\.)?(?P<of>\w+)(?P<after>, values .*)", re.DOTALL)
"""A join of streams, which stores records of another stream. Its edge is also named after its reader, if the stream has
several.
"""


def flow_changes(application: str, committed: TopologyDescription, current: TopologyDescription) -> Iterator[Change]:
    """The flows whose steps have changed. A log of a version that did not record steps gives no changes."""
    old, new = _flows(committed), _flows(current)
    if not old:
        return
    if not committed.settings and not any(map(_reads, chain.from_iterable(old.values()))):  # an older log
        new = {name: [step for step in steps if not _reads(step)] for name, steps in new.items()}
    gone, come = _without(_ways(old), _ways(new)), _without(_ways(new), _ways(old))
    if bool(gone) != bool(come):  # all others are unchanged, even if they share fewer or more steps
        for name in _told(_with_writers(gone, old, new), old):
            yield _removed(Subject("flow", name, application), old[name], current)
        for name in _told(_with_writers(come, new, old), new):
            place = _place(new[name], new)
            yield _added(Subject("flow", name, application), place, committed, current)
        return
    old, new = _folded_alike(old, new), _folded_alike(new, old)
    names = {name: _former(name, old, new) for name in new}
    renamed = {was: is_ for is_, was in names.items() if was}
    old = {name: [renamed_step(step, renamed, of_flow=False) for step in steps] for name, steps in old.items()}
    grouping = {name: [renamed_step(step, renamed) for step in steps] for name, steps in committed.regrouping.items()}
    for name in dict.fromkeys((*new, *(flow for flow in old if flow not in names.values()))):
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
    """The flows, with those merged into the flow that they read that are merged in `others`.

    The steps of a flow with a single reader are part of the reader. They move when a second reader is added or removed,
    which is no change of the steps.
    """
    read = {step.text for steps in others.values() for step in steps}
    folded_flows = dict(flows)
    for name, (first, *steps) in (
        (name, flow_steps) for name, flow_steps in flows.items() if flow_steps and name not in others
    ):
        above = first.text.removeprefix(_READS)
        if first.text in read or above not in folded_flows or above not in others:
            continue
        folded = [*folded_flows[above], *steps]
        if _forms(folded) == _forms(others[above]):
            folded_flows[above] = folded
            del folded_flows[name]
    return folded_flows


def _told(names: Sequence[str], flows: Mapping[str, Sequence[StepText]]) -> list[str]:
    """The names without edges by which a flow reads another flow or table, which change with the steps of flows."""
    return [name for name in names if "." not in name or not all(map(_reads, flows[name]))]


def _reads(step: StepText) -> bool:
    return step.text.startswith(_READS)


def _changed(
    subject: Subject, was: Sequence[StepText], is_: Sequence[StepText], place: str | None, regrouped: bool
) -> Change:
    """The change of a flow with other steps. It cannot continue if the new steps would misread the rows of stores.
    `regrouped`: rows are added to other groups.
    """
    lines, first = _diff(was, is_)
    onward = f"they apply from the next record on; {STAYS}"
    change = _onward("flow.steps", subject, "its steps changed", onward, first or place, lines)
    if _captured(_ASKS, was) != _captured(_ASKS, is_):
        reason = "rows subscribe to other rows now, and their old subscriptions would still get responses"
    elif _captured(_JOINS_STREAM, was) != _captured(_JOINS_STREAM, is_):
        reason = "another stream is joined, and records of the old one would be matched as its own"
    elif regrouped:
        reason = REGROUPED
    else:
        return change
    return replace(change, what=f"{change.what}: {reason}", ways=ways_back(subject.application), onward="")


def _forms(steps: Sequence[StepText]) -> list[tuple[str, ...]]:
    return [normal_form(step.text) for step in steps]


def _captured(form: re.Pattern[str], steps: Sequence[StepText]) -> list[tuple[str, ...]]:
    """The captured tokens of the steps that match a form, in order."""
    return [normal_form(match["of"]) for step in steps if (match := form.fullmatch(step.text))]


def _flows(description: TopologyDescription) -> dict[str, list[StepText]]:
    """Flow or table -> its steps, edges by which it reads a joined topic included."""
    flows = description.flows
    by_name = {name: [_by_stream(step) for step in steps] for name, steps in flows.items()}
    for name, steps in flows.items():
        flow, dot, _ = name.partition(".")
        if dot and flow in flows and all(step.text == f"from {name[len(flow) + 1 :]}" for step in steps):
            by_name[flow] += (replace(step, flow=flow) for step in by_name.pop(name))
    return by_name


def _by_stream(step: StepText) -> StepText:
    match = _JOINS_STREAM.fullmatch(step.text)
    return replace(step, text=f"{match['before']}{match['of']}{match['after']}") if match else step


def _place(steps: Sequence[StepText], flows: Mapping[str, Sequence[StepText]]) -> str | None:
    """The `file:line` of a flow: of its first step that is in no other flow."""
    flows_at = Counter(at for steps in flows.values() for at in {step.at for step in steps})
    return next((step.at for step in steps if step.at and flows_at[step.at] == 1), None)


def _added(subject: Subject, place: str | None, committed: TopologyDescription, current: TopologyDescription) -> Change:
    """The change of a new flow. It misses records if its subtopology has read some, or its topic has earlier ones."""
    written = committed.written
    for name, part in current.subtopologies.items():
        if any(step.flow == subject.name for step in part.steps) and (
            name in committed.subtopologies or written.intersection(part.sinks)
        ):
            return _onward("flow.added", subject, "it is new", f"it starts at the next record; {STAYS}", place)
    what = "it is new, and starts at the first available record"
    return Change("flow.added", subject, Verdict.COMPATIBLE, what, place=place)


def _removed(subject: Subject, was: Sequence[StepText], current: TopologyDescription) -> Change:
    """The change of a removed flow. If another flow still writes its topic, its records are among those of that one."""
    if shared := [topic for topic in filter(None, map(topic_written, was)) if topic in current.written]:
        what = f"it is gone, and {', '.join(shared)} is still written"
        return _onward("flow.removed", subject, what, "its records stay")
    return Change("flow.removed", subject, Verdict.COMPATIBLE, f"it is gone; {STAYS}")


def _onward(
    kind: str, subject: Subject, what: str, onward: str, place: str | None = None, lines: tuple[str, ...] = ()
) -> Change:
    ways = ways_onward(subject.application)
    return Change(kind, subject, Verdict.ERROR, what, lines, place, ways, onward=onward)


def fillers(committed: TopologyDescription, current: TopologyDescription) -> Iterator[tuple[str, str, str]]:
    """(store, former filler, present filler) of stores whose rows another step writes now.

    A log of a version that did not record fillers gives none.
    """
    old, new = committed.flows, current.flows
    was, is_ = _fillers(committed), _fillers(current)
    for store in sorted(was.keys() & is_.keys()):
        then, now = was[store], is_[store]
        flow = now.flow if now.flow in old else _former(now.flow, old, new) or now.flow
        if (then.flow, then.number) != (flow, now.number):
            yield store, _filler_text(then), _filler_text(now)


def _fillers(description: TopologyDescription) -> dict[str, StoreFiller]:
    return {filler.store: filler for part in description.subtopologies.values() for filler in part.fillers}


def _filler_text(filler: StoreFiller) -> str:
    return filler.flow if filler.number == 1 else f"step {filler.number} of {filler.flow} that keeps rows"


def _former(name: str, old: Mapping[str, Sequence[StepText]], new: Mapping[str, Sequence[StepText]]) -> str | None:
    """The former name of a new flow: of a removed flow with the same steps."""
    if name in old:
        return None
    steps = _forms(new.get(name, ()))
    return next((flow for flow in old if flow not in new and _forms(old[flow]) == steps), None)


def _ways(flows: Mapping[str, Sequence[StepText]]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Flow that no other flow reads -> all steps of a record from the source topic to its end.

    Two flows share the steps of a flow that both read. If one of them is removed, the steps belong to the other.
    """

    def way(name: str, behind: frozenset[str] = frozenset()) -> tuple[tuple[str, ...], ...]:
        way_steps: list[tuple[str, ...]] = []
        for step in flows.get(name, ()):
            before = step.text.removeprefix(_READS) if step.text.startswith(_READS) else None
            if before is not None and before not in behind:
                way_steps.extend(way(before, behind | {name}))
            else:
                way_steps.append(normal_form(step.text))
        return tuple(way_steps)

    read = {
        step.text.removeprefix(_READS) for steps in flows.values() for step in steps if step.text.startswith(_READS)
    }
    return {name: way(name) for name in flows if name not in read}


def _without(
    ways: Mapping[str, tuple[Sequence[str], ...]], others: Mapping[str, tuple[Sequence[str], ...]]
) -> list[str]:
    """The flows whose steps none of the others has, each of the others matching one flow."""
    left = list(others.values())
    remaining = []
    for name, way in ways.items():
        if way in left:
            left.remove(way)
        else:
            remaining.append(name)
    return remaining


def _with_writers(
    chosen: Sequence[str], flows: Mapping[str, Sequence[StepText]], others: Mapping[str, Sequence[StepText]]
) -> list[str]:
    """The chosen flows, and the flows that write a topic that no flow of `others` writes any more, in the file's order.

    Empty if no flow is chosen.
    """
    rest = {name: steps for name, steps in flows.items() if name not in chosen}
    alone = Counter(map(topic_written, _steps(rest))) - Counter(map(topic_written, _steps(others)))
    more = {name for name in rest if name not in others and any(topic_written(step) in alone for step in rest[name])}
    return [name for name in flows if name in chosen or (chosen and name in more)]


def _steps(flows: Mapping[str, Sequence[StepText]]) -> Iterator[StepText]:
    return (step for steps in flows.values() for step in steps if step.text.startswith(_WRITES))


def topic_written(step: StepText) -> str | None:
    """The topic that a step writes; None if it writes none."""
    return step.text.removeprefix(_WRITES) if step.text.startswith(_WRITES) else None


def _diff(was: Sequence[StepText], is_: Sequence[StepText]) -> tuple[tuple[str, ...], str | None]:
    """The lines of the diff, and the `file:line` of the first new step."""
    forms = {normal_form(step.text): step.text for step in (*is_, *was)}
    old, new = Counter(_forms(was)), Counter(_forms(is_))
    gone, come = old - new, new - old
    lines = (*(f"- {forms[form]}" for form in gone.elements()), *(f"+ {forms[form]}" for form in come.elements()))
    first = next((step.at for step in is_ if normal_form(step.text) in come and step.at), None)
    return lines or ("~ the order of steps",), first
