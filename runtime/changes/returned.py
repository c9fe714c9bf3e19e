"""Flows that are added where a removed one has left positions, or records in the topic that they write.

A flow that was removed is not in what is committed last, so a comparison takes it for a new one. But positions are kept
by the names of subtopologies, and records stay in their topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ..log.commit.descriptions import TopologyDescription
from ..log.placed.log import handed
from ..log.state import LogState
from ..progress.committed import Committed
from .model import Change, Verdict
from .steps import topic_written
from .ways import ways_back


def with_returned(changes: Iterable[Change], committed: Committed, current: TopologyDescription) -> Iterator[Change]:
    """The changes, in which the flows that are added say where they go on, and what their topics hold already."""
    for change in changes:
        added = change.kind == "flow.added" and change.verdict is Verdict.COMPATIBLE
        yield _told(change, committed, current) if added else change


def _told(added: Change, committed: Committed, current: TopologyDescription) -> Change:
    own, flow = committed.own, added.subject.name
    there = _read_before(own, flow, current)
    kept = _kept(committed, flow, current)
    if not there and not kept:
        return added
    if there:
        who = "it" if flow in there else f"its subtopology {', '.join(there)}"
        read = {topic: count for topics in there.values() for topic, count in topics.items()}
        behind = " and ".join(f"{_records(count)} of {topic}" for topic, count in read.items())
        what = [f"{who} was there before, and goes on where it was, behind {behind}"]
    else:
        what = ["it begins with the first record that is there"]
    what += [f"{topic} keeps its {_records(count)} of before" for topic, count in kept.items()]
    return replace(added, what="; ".join(what), ways=ways_back(committed.application)[1:])


def _read_before(own: LogState, flow: str, current: TopologyDescription) -> dict[str, Mapping[str, int]]:
    """Subtopology with steps of the flow -> topic that it reads -> how many of its records lie before the positions.

    Only those where there are some.
    """
    found: dict[str, Mapping[str, int]] = {}
    for name, part in current.subtopologies.items():
        if any(step.flow == flow for step in part.steps):
            tasks = [task.positions for task in own.tasks.all() if task.subtopology == name]
            counts = {topic: sum(sum(each.get(topic, {}).values()) for each in tasks) for topic in part.sources}
            if read := {topic: count for topic, count in counts.items() if count}:
                found[name] = read
    return found


def _kept(committed: Committed, flow: str, current: TopologyDescription) -> dict[str, int]:
    """Topic that the flow writes -> how many records the application has in it already; not of those without any."""
    topics = {*filter(None, map(topic_written, current.flows[flow]))} - handed(committed.log, committed.application)
    found = dict.fromkeys(sorted(topics), 0)
    for segment in committed.own.segments() if topics else ():
        if segment.topic in found:
            found[segment.topic] += segment.rows
    return {topic: count for topic, count in found.items() if count}


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"
