"""Changes that continue, reset stores, orphaned applications, and flows that move to another topology."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.topology import Topology
from ..log.commit.descriptions import TopologyDescription
from ..log.commit.encoding import decode_commit
from ..log.declared_topics import applications_of, changed_writers, reads
from ..log.log import Log
from ..log.placed_log import PlacedLog, handed, latest_state
from ..log.state import LogState
from ..progress.committed import Committed
from .comparison import OTHER_WRITER
from .model import CONTINUE, UNDO, Change, Subject, Verdict, Way, ways_back
from .plan import Orphan
from .repartition import STILL_READ

INCOMPLETE = "topic.incomplete"
"""The kind of a change that prevents a rebuild: a topic has lost records that it would read."""

IN_KAFKA = "topic.in_kafka"
"""The kind of a change that prevents a rebuild: Kafka has records of the present result."""


def continuing(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes of an application that continues, compatible where they may apply to new records only."""
    return tuple(
        replace(change, verdict=Verdict.COMPATIBLE, what=f"{change.what}; {change.onward}", ways=())
        if change.onward
        else change
        for change in changes
    )


def may_continue(changes: Iterable[Change]) -> bool:
    """Whether an application could continue with all of its changes."""
    obstacles = (change for change in changes if change.verdict is Verdict.ERROR)
    return all(obstacle.onward or obstacle.kind in (STILL_READ, INCOMPLETE, IN_KAFKA) for obstacle in obstacles)


def with_real_ways(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes of an application. `--continue` is a way out only if all of them allow it."""
    kept = tuple(changes)
    if may_continue(kept):
        return kept
    return tuple(replace(change, ways=tuple(way for way in change.ways if way != CONTINUE)) for change in kept)


RESET = "store.reset"
"""The kind of a change that is none of the project: a rebuild of a store was requested."""


def reset_changes(topology: Topology, committed: Committed) -> Iterator[Change]:
    """A change per requested store that the topology still has. Without consumed records there is nothing
    to rebuild.
    """
    if not committed.own.tasks.consumed:
        return
    for part in topology.subtopologies:
        for store in part.stores:
            if store.name in committed.resets:
                subject = Subject("store", store.name, topology.application)
                what = "`headwater reset` has requested a rebuild of its rows"
                place, ways = part.places.get(store.name), _ways(topology, store.name)
                yield Change(RESET, subject, Verdict.ERROR, what, place=place, ways=ways)


def _ways(topology: Topology, store: str) -> tuple[Way, ...]:
    """The ways out of a reset: to withdraw it, or to restart with the available records."""
    _, begin_again = ways_back(topology.application)
    withdraw = f"headwater reset {topology.name} --store {store} --withdraw"
    return Way(f"keep the rows of {store} as they are", withdraw), begin_again


def with_withdrawal(changes: Iterable[Change], asked: Collection[Change]) -> tuple[Change, ...]:
    """The changes with ways out that fit the cause of a rebuild.

    `asked`: the changes that need it. A reset can be withdrawn, and changes of the project can be undone.
    """
    withdraw = tuple(change.ways[0] for change in asked if change.kind == RESET)
    if not withdraw:
        return tuple(changes)
    undo = withdraw if all(change.kind == RESET for change in asked) else (UNDO, *withdraw)

    def ways(change: Change) -> Iterator[Way]:
        for way in change.ways:
            yield from undo if way == UNDO else (way,)

    return tuple(replace(change, ways=tuple(dict.fromkeys(ways(change)))) for change in changes)


def orphans(
    log: Log, project: str, owned: Collection[str], new: Iterable[tuple[str, TopologyDescription]] = ()
) -> tuple[Orphan, ...]:
    """The orphans of a project: committed applications of topologies that were removed or renamed.

    `owned`: the applications of its topologies. `new`: topologies without commits, with their descriptions: one of them
    may be an orphan's new name. Raises LogError.
    """
    candidates = list(new)
    return tuple(
        _orphan(log, application, candidates)
        for application in applications_of(log, project)
        if application not in owned
    )


def likely_name(old: TopologyDescription, new: Iterable[tuple[str, TopologyDescription]]) -> str | None:
    """The topology that is most similar to an earlier one: the same inputs, and an output, store or step in common."""
    scores = {name: _likeness(old, description) for name, description in new}
    best = max(scores, key=lambda name: scores[name], default=None)
    return best if best is not None and scores[best] else None


def _orphan(log: Log, application: str, new: Collection[tuple[str, TopologyDescription]]) -> Orphan:
    state = latest_state(log, application)
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
    """Steps without reads and writes, which are compared by their topics."""
    texts = (step.text for part in description.subtopologies.values() for step in part.steps)
    return {text for text in texts if not text.startswith(("from ", "to "))}


# Flows that move to another topology with their topics. The new writer of a topic rebuilds its records, and takes it
# over with one commit. The old writer resumes without it.

MOVED = "flow.moved"
"""The kind of a change: a flow is in another topology now."""


@dataclass(frozen=True)
class Move:
    """A topic that moves from application `was` to `now`."""

    topic: str
    was: str
    now: str


@dataclass(frozen=True)
class Moves:
    """The topics that a run may move (`ready`). `waiting`: those that it could move if `was` were selected. `emptied`:
    applications without a topology that have no other topic, so that nothing remains of them.
    """

    ready: tuple[Move, ...] = ()
    waiting: tuple[Move, ...] = ()
    emptied: frozenset[str] = frozenset()

    def within(self, names: Collection[str]) -> Moves:
        """The moves to applications of these names."""
        ready = tuple(move for move in self.ready if move.now in names)
        others = {move.was for move in self.ready if move not in ready}
        return replace(self, ready=ready, emptied=self.emptied - others)

    def handed(self) -> dict[str, tuple[str, ...]]:
        """Application -> the topics that it loses."""
        handed_over: dict[str, tuple[str, ...]] = {}
        for move in self.ready:
            handed_over[move.was] = (*handed_over.get(move.was, ()), move.topic)
        return handed_over

    def takes(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Application -> old writer -> the topics that it takes over."""
        return {move.now: replace(self, ready=self._to(move.now)).handed() for move in self.ready}

    def _to(self, application: str) -> tuple[Move, ...]:
        return tuple(move for move in self.ready if move.now == application)

    def gives(self, writer: str | None, topic: str) -> bool:
        """Whether the records of an application in a topic are replaced by those of another one."""
        return writer in self.emptied or any((move.was, move.topic) == (writer, topic) for move in self.ready)


def moves_of(
    log: PlacedLog,
    topologies: Sequence[Topology],
    committed: Mapping[str, Committed],
    changes: Mapping[str, Sequence[Change]],
    owned: Collection[str] | None,
    others: Collection[str] = (),
) -> Moves:
    """The topics that move to another application. `changes`: application -> its changes. Others: see
    `start_changes`.
    """
    named = {topology.application for topology in topologies} | {*others}
    moves = [
        Move(changed.topic, changed.was, topology.application)
        for topology in topologies
        if any(change.kind == OTHER_WRITER for change in changes.get(topology.application, ()))
        for changed in changed_writers(log, topology.project, topology.written, committed[topology.application].states)
    ]
    if owned is None:
        return Moves(tuple(move for move in moves if move.was in named))
    left = {move.was: latest_state(log, move.was) for move in moves if move.was not in owned}
    renamed = {was for was in left if _is_renamed(was, left[was], topologies, committed, moves)}
    ready = tuple(move for move in moves if move.was in named or move.was in left.keys() - renamed)
    waiting = tuple(move for move in moves if move.was not in named and move.was in owned)
    emptied = frozenset(was for was in left.keys() - renamed if not _other_topics(log, left[was], ready))
    return Moves(ready, waiting, emptied)


def _is_renamed(
    was: str, state: LogState, topologies: Sequence[Topology], committed: Mapping[str, Committed], moves: Iterable[Move]
) -> bool:
    """Whether an application without a topology looks like a new one under another name: then the user has
    to decide.
    """
    mine = [move for move in moves if move.was == was]
    takers = {move.now for move in mine}
    if len(takers) > 1 or any(move.now in takers and move.was != was for move in moves):
        return False
    return any(
        likely_name(state.topology, [(topology.name, TopologyDescription.from_topology(topology))]) is not None
        for topology in topologies
        if topology.application in takers and not committed[topology.application].own.tasks.consumed
    )


def _other_topics(log: PlacedLog, state: LogState, moves: Iterable[Move]) -> set[str]:
    """The topics of an application that no other one takes over, without its internal ones."""
    application = state.application
    own = {topic for topic in state.written() if not topic.startswith(f"{application}-")}
    return own - handed(log, application) - {move.topic for move in moves if move.was == application}


def readers_left(log: PlacedLog, names: Collection[str], moves: Moves, project: str) -> Iterator[tuple[str, str]]:
    """(application, topic) for the readers of a replaced result that are not rebuilt. `names`: the rebuilt ones."""
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
    """The changes of an application. If the old writer of a topic is not selected, the way out is to select it."""
    for change in changes:
        waits = [move for move in moves.waiting if change.kind == OTHER_WRITER and move.topic == change.subject.name]
        selected = " ".join(f"{move.was.partition('-')[2]} {move.now.partition('-')[2]}+" for move in waits)
        way = Way("also select the topology that has written it", f"headwater run --select '{selected}'")
        yield replace(change, ways=(way, *change.ways[:1])) if waits else change


def with_moved_flows(
    changes: Mapping[str, tuple[Change, ...]],
    topologies: Sequence[Topology],
    committed: Mapping[str, Committed],
    moves: Moves,
) -> dict[str, tuple[Change, ...]]:
    """The changes of all applications, with moved flows instead of removed and added ones."""
    after = dict(changes)
    now = {topology.application: TopologyDescription.from_topology(topology) for topology in topologies}
    before = {name: state.own.topology for name, state in committed.items() if state.own.tasks.consumed}
    for move in moves.ready:
        if move.was not in before:
            before[move.was] = latest_state(committed[move.now].log, move.was).topology
    for taker in now.keys() & after.keys():
        for giver in before.keys() - {taker}:
            by_move = any((move.was, move.now) == (giver, taker) for move in moves.ready)
            moved = _moved_flows(before[giver], now.get(giver), before.get(taker), now[taker], by_move)
            if not moved:
                continue
            there, here = giver.partition("-")[2], taker.partition("-")[2]
            again = any(change.verdict is Verdict.REPLACE for change in after[taker])
            verdict = Verdict.REPLACE if again else Verdict.COMPATIBLE
            after[taker] = _told(after[taker], taker, moved, verdict, f"it moved here from topology {there}")
            if giver in after:
                what = f"it moved to topology {here}"
                after[giver] = _told(after[giver], giver, moved, Verdict.COMPATIBLE, what)
    return after


def _told(
    changes: Iterable[Change], application: str, moved: Mapping[str, str | None], verdict: Verdict, what: str
) -> tuple[Change, ...]:
    """The changes, with moved flows instead of removed and added ones. `moved`: flow -> `file:line`."""
    flows = [
        change for change in changes if change.kind in ("flow.added", "flow.removed") and change.subject.name in moved
    ]
    stopped = {change.subject.name for change in flows if change.verdict is Verdict.ERROR}  # their errors stay
    moved_flows = [
        Change(MOVED, Subject("flow", flow, application), verdict, what, place=at)
        for flow, at in moved.items()
        if flow not in stopped
    ]
    return (*moved_flows, *(change for change in changes if change not in flows or change.subject.name in stopped))


def _moved_flows(
    giver: TopologyDescription,
    giver_now: TopologyDescription | None,
    taker: TopologyDescription | None,
    taker_now: TopologyDescription,
    with_topic: bool,
) -> dict[str, str | None]:
    """Flow -> `file:line`, for flows that one topology had and another one has now. `with_topic`: a topic moves with
    them; else their steps have to be the same.
    """
    had, here = giver.flows, taker_now.flows
    others = {*(giver_now.flows if giver_now else ()), *(taker.flows if taker else ())}
    return {
        flow: next((step.at for step in here[flow] if step.at), None)
        for flow in had.keys() & here.keys() - others
        if with_topic or [step.text for step in had[flow]] == [step.text for step in here[flow]]
    }
