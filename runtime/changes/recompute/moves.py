"""Flows that have moved to another topology with the topics that they write.

A topic's records so far are of its writer of before. The new writer computes all of them again, and takes the topic
over with one commit. The writer of before goes on without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...log.commit.descriptions import TopologyDescription
from ...log.declared_topics import applications_of, changed_writers, reads
from ...log.placed.log import PlacedLog, handed
from ...log.state import LogState
from ...progress.committed import Committed
from ...topology import Topology
from ..inputs import OTHER_WRITER
from ..model import Change, Subject, Verdict, Way
from ..plans.orphans import likely_name

MOVED = "flow.moved"
"""The kind of a change: a flow is in another topology now."""


@dataclass(frozen=True)
class Move:
    """A topic that application `was` has written so far, and `now` from now on."""

    topic: str
    was: str
    now: str


@dataclass(frozen=True)
class Moves:
    """The topics that a run may hand over. `waiting`: those that it could if `was` were selected. `emptied`:
    applications without a topology that have no other topic, so that nothing is left of them.
    """

    ready: tuple[Move, ...] = ()
    waiting: tuple[Move, ...] = ()
    emptied: frozenset[str] = frozenset()

    def within(self, names: Collection[str]) -> Moves:
        """Those to applications of these names."""
        ready = tuple(each for each in self.ready if each.now in names)
        others = {each.was for each in self.ready if each not in ready}
        return replace(self, ready=ready, emptied=self.emptied - others)

    def handed(self) -> dict[str, tuple[str, ...]]:
        """Application -> the topics that it hands over."""
        found: dict[str, tuple[str, ...]] = {}
        for each in self.ready:
            found[each.was] = (*found.get(each.was, ()), each.topic)
        return found

    def takes(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Application -> that of before -> the topics that it takes over from it."""
        return {each.now: replace(self, ready=self._to(each.now)).handed() for each in self.ready}

    def _to(self, application: str) -> tuple[Move, ...]:
        return tuple(each for each in self.ready if each.now == application)

    def gives(self, writer: str | None, topic: str) -> bool:
        """Whether the records of an application in a topic are given up."""
        return writer in self.emptied or any((each.was, each.topic) == (writer, topic) for each in self.ready)


def moves_of(
    log: PlacedLog,
    topologies: Sequence[Topology],
    committed: Mapping[str, Committed],
    found: Mapping[str, Sequence[Change]],
    owned: Collection[str] | None,
    others: Collection[str] = (),
) -> Moves:
    """The topics that change hands. `found`: what has changed about each application. Else see `judge`."""
    named = {each.application for each in topologies} | {*others}
    moves = [
        Move(changed.topic, changed.was, each.application)
        for each in topologies
        if any(change.kind == OTHER_WRITER for change in found.get(each.application, ()))
        for changed in changed_writers(log, each.project, each.written, committed[each.application].states)
    ]
    if owned is None:
        return Moves(tuple(each for each in moves if each.was in named))
    left = {each.was: LogState.load(log.commits(each.was)) for each in moves if each.was not in owned}
    renamed = {was for was in left if _is_renamed(was, left[was], topologies, committed, moves)}
    ready = tuple(each for each in moves if each.was in named or each.was in left.keys() - renamed)
    waiting = tuple(each for each in moves if each.was not in named and each.was in owned)
    emptied = frozenset(was for was in left.keys() - renamed if not _other_topics(log, left[was], ready))
    return Moves(ready, waiting, emptied)


def _is_renamed(
    was: str, state: LogState, topologies: Sequence[Topology], committed: Mapping[str, Committed], moves: Iterable[Move]
) -> bool:
    """Whether an application without a topology looks like a new one under another name: that has to be said then."""
    mine = [each for each in moves if each.was == was]
    takers = {each.now for each in mine}
    if len(takers) > 1 or any(each.now in takers and each.was != was for each in moves):
        return False
    return any(
        likely_name(state.topology, [(each.name, TopologyDescription.of(each))]) is not None
        for each in topologies
        if each.application in takers and not committed[each.application].own.tasks.consumed
    )


def _other_topics(log: PlacedLog, state: LogState, moves: Iterable[Move]) -> set[str]:
    """The topics that an application has written and that nobody takes over, without those for itself alone."""
    application = state.application
    own = {topic for topic in state.written() if not topic.startswith(f"{application}-")}
    return own - handed(log, application) - {each.topic for each in moves if each.was == application}


def readers_left(log: PlacedLog, names: Collection[str], moves: Moves, project: str) -> Iterator[tuple[str, str]]:
    """Applications that have read a result which is given up, each with a topic. `names`: those computed again."""
    for other in applications_of(log, project):
        if other in names or other in moves.emptied:
            continue
        topics = [
            topic
            for topic, writer in reads(log, other, lenient=True).items()
            if writer in names or moves.gives(writer, topic)
        ]
        if topics:
            yield other, topics[0]


def with_waiting(changes: Iterable[Change], moves: Moves) -> Iterator[Change]:
    """The changes of an application. If the writer of a topic so far is not selected, the way is to select it."""
    for change in changes:
        waits = [each for each in moves.waiting if change.kind == OTHER_WRITER and each.topic == change.subject.name]
        selected = " ".join(f"{each.was.partition('-')[2]} {each.now.partition('-')[2]}+" for each in waits)
        way = Way("select the topology that has written it too", f"headwater run --select '{selected}'")
        yield replace(change, ways=(way, *change.ways[:1])) if waits else change


def with_moved_flows(
    found: Mapping[str, tuple[Change, ...]],
    topologies: Sequence[Topology],
    committed: Mapping[str, Committed],
    moves: Moves,
) -> dict[str, tuple[Change, ...]]:
    """The changes of all applications, in which a flow that is in another topology now is told as that."""
    after = dict(found)
    now = {each.application: TopologyDescription.of(each) for each in topologies}
    before = {name: each.own.topology for name, each in committed.items() if each.own.tasks.consumed}
    for each in moves.ready:
        if each.was not in before:
            before[each.was] = LogState.load(committed[each.now].log.commits(each.was)).topology
    for taker in now.keys() & after.keys():
        for giver in before.keys() - {taker}:
            told = any((each.was, each.now) == (giver, taker) for each in moves.ready)
            moved = _moved_flows(before[giver], now.get(giver), before.get(taker), now[taker], told)
            if not moved:
                continue
            there, here = giver.partition("-")[2], taker.partition("-")[2]
            again = any(each.verdict is Verdict.EVOLVES for each in after[taker])
            verdict = Verdict.EVOLVES if again else Verdict.COMPATIBLE
            after[taker] = _told(after[taker], taker, moved, verdict, f"it moved here from topology {there}")
            if giver in after:
                what = f"it moved to topology {here}"
                after[giver] = _told(after[giver], giver, moved, Verdict.COMPATIBLE, what)
    return after


def _told(
    changes: Iterable[Change], application: str, moved: Mapping[str, str | None], verdict: Verdict, what: str
) -> tuple[Change, ...]:
    """The changes, in which those of the moved flows say so. `moved`: flow -> its place."""
    flows = [each for each in changes if each.kind in ("flow.added", "flow.removed") and each.subject.name in moved]
    stopped = {each.subject.name for each in flows if each.verdict is Verdict.REFUSES}  # that is what matters of it
    told = [
        Change(MOVED, Subject("flow", flow, application), verdict, what, place=at)
        for flow, at in moved.items()
        if flow not in stopped
    ]
    return (*told, *(each for each in changes if each not in flows or each.subject.name in stopped))


def _moved_flows(
    giver: TopologyDescription,
    giver_now: TopologyDescription | None,
    taker: TopologyDescription | None,
    taker_now: TopologyDescription,
    with_topic: bool,
) -> dict[str, str | None]:
    """The flows, each with its place, that one topology has had and another one has now. `with_topic`: whether a topic
    goes with them; else only those with the same steps are the same.
    """
    had, here = giver.flows, taker_now.flows
    others = {*(giver_now.flows if giver_now else ()), *(taker.flows if taker else ())}
    return {
        flow: next((each.at for each in here[flow] if each.at), None)
        for flow in had.keys() & here.keys() - others
        if with_topic or [each.text for each in had[flow]] == [each.text for each in here[flow]]
    }
