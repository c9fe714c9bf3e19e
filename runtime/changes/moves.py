"""What moves, goes on, is reset, or has no owner any more when a topology has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.topology import Topology
from ..log.commit.descriptions import TopologyDescription
from ..log.commit.encoding import decode_commit
from ..log.declared_topics import applications_of, changed_writers, reads
from ..log.log import Log
from ..log.placed_log import PlacedLog, handed
from ..log.state import LogState
from ..progress.committed import Committed
from .comparison import OTHER_WRITER
from .model import CONTINUE, UNDO, Change, Subject, Verdict, Way, ways_back
from .plan import Orphan
from .repartition import STILL_READ

# Changes that need no result to be computed again, if somebody wants it so: they count from the next record on.

INCOMPLETE = "topic.incomplete"
"""The kind of a change that stops a result from being computed again: records that it would read are not there any
more.
"""


def going_on(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes of an application that goes on from what is committed, as far as they allow it."""
    return tuple(
        replace(each, verdict=Verdict.COMPATIBLE, what=f"{each.what}; {each.onward}", ways=()) if each.onward else each
        for each in changes
    )


def may_go_on(changes: Iterable[Change]) -> bool:
    """Whether an application could go on with all of its changes."""
    obstacles = (each for each in changes if each.verdict is Verdict.ERROR)
    return all(each.onward or each.kind in (STILL_READ, INCOMPLETE) for each in obstacles)


def with_real_ways(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes of an application, to go on as a way out only if none of them stops that."""
    found = tuple(changes)
    if may_go_on(found):
        return found
    return tuple(replace(each, ways=tuple(way for way in each.ways if way != CONTINUE)) for each in found)


# Stores that are to be computed again because somebody has asked for it: a change like any other, but not one of the
# project.

RESET = "store.reset"
"""The kind of the change."""


def reset_changes(topology: Topology, committed: Committed) -> Iterator[Change]:
    """One for each store that the topology still has. Without any records consumed there is nothing to compute."""
    if not committed.own.tasks.consumed:
        return
    for part in topology.subtopologies:
        for store in part.stores:
            if store.name in committed.resets:
                subject = Subject("store", store.name, topology.application)
                what = "its rows are to be computed again: `headwater reset` has asked for it"
                place, ways = part.places.get(store.name), _ways(topology, store.name)
                yield Change(RESET, subject, Verdict.ERROR, what, place=place, ways=ways)


def _ways(topology: Topology, store: str) -> tuple[Way, ...]:
    """To withdraw it, which comes first, or to begin again with what is there."""
    _, begin_again = ways_back(topology.application)
    withdraw = f"headwater reset {topology.name} --store {store} --withdraw"
    return Way(f"let the rows of {store} be as they are", withdraw), begin_again


def with_withdrawal(changes: Iterable[Change], asked: Collection[Change]) -> tuple[Change, ...]:
    """The changes, with the ways out that fit why results are computed again.

    `asked`: the changes that ask for it. A reset is withdrawn, and only what has changed in the project is undone.
    """
    withdraw = tuple(each.ways[0] for each in asked if each.kind == RESET)
    if not withdraw:
        return tuple(changes)
    undo = withdraw if all(each.kind == RESET for each in asked) else (UNDO, *withdraw)

    def ways(change: Change) -> Iterator[Way]:
        for way in change.ways:
            yield from undo if way == UNDO else (way,)

    return tuple(replace(each, ways=tuple(dict.fromkeys(ways(each)))) for each in changes)


# Applications that are committed and that no topology of the project owns: topologies that were removed or renamed.


def orphans(
    log: Log, project: str, owned: Collection[str], new: Iterable[tuple[str, TopologyDescription]] = ()
) -> tuple[Orphan, ...]:
    """The orphans of a project by name. `owned`: the applications of its topologies.

    `new`: topologies that have not committed anything, with what they are: one of them may be an orphan's new name.
    Raises LogError.
    """
    candidates = list(new)
    return tuple(_orphan(log, each, candidates) for each in applications_of(log, project) if each not in owned)


def likely_name(old: TopologyDescription, new: Iterable[tuple[str, TopologyDescription]]) -> str | None:
    """The topology that is most like an earlier one: the same inputs, and an output, a store or a step in common."""
    scores = {name: _likeness(old, each) for name, each in new}
    best = max(scores, key=lambda name: scores[name], default=None)
    return best if best is not None and scores[best] else None


def _orphan(log: Log, application: str, new: Collection[tuple[str, TopologyDescription]]) -> Orphan:
    state = LogState.load(log.commits(application))
    last = state.commits.read(state.number)
    segments = state.segments()
    return Orphan(
        application,
        application.partition("-")[2],
        sum(batch.rows for segment in segments for batch in segment.batches),
        sum(segment.size for segment in segments),
        None if last is None else decode_commit(last).at,
        likely_name(state.topology, new),
    )


def _likeness(old: TopologyDescription, new: TopologyDescription) -> int:
    if not old.subtopologies or _inputs(old) != _inputs(new):
        return 0
    return len(old.written & new.written) + len(old.stores.keys() & new.stores.keys()) + len(_steps(old) & _steps(new))


def _inputs(description: TopologyDescription) -> set[str]:
    return {topic for part in description.subtopologies.values() for topic in part.sources} - description.written


def _steps(description: TopologyDescription) -> set[str]:
    """Steps other than those that read and write, which are compared by their topics."""
    texts = (step.text for part in description.subtopologies.values() for step in part.steps)
    return {text for text in texts if not text.startswith(("from ", "to "))}


# Flows that have moved to another topology with the topics that they write.
#
# A topic's records so far are of its writer of before. The new writer computes all of them again, and takes the topic
# over with one commit. The writer of before goes on without it.

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
            again = any(each.verdict is Verdict.REPLACE for each in after[taker])
            verdict = Verdict.REPLACE if again else Verdict.COMPATIBLE
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
    stopped = {each.subject.name for each in flows if each.verdict is Verdict.ERROR}  # that is what matters of it
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
