"""Decides which changes a run carries out by rebuilds, and of which topologies.

The topics, stores and positions of a topology belong together. So all of them are rebuilt, and so are its readers. A
rebuild is possible if a start from nothing would be: then no other change stops it.

Some changes may apply from the next record on instead (`Change.onward`), if the run continues (`--continue`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...errors import HeadwaterError
from ..ir.topology import Topology
from ..log.declared_topics import read_by
from ..log.placed_log import PlacedLog
from ..progress.committed import Committed
from .comparison import KAFKA_REPLACED, REFRESHED
from .contents import contents_of, incomplete, topic_writer
from .facets import CATCH_UP
from .found import RECORDS_MISSING, changes_of, with_ways_that_help
from .mirrored import mirror_change, refused
from .model import Change, Subject, Verdict
from .moves import (
    RESET,
    Moves,
    continuing,
    may_continue,
    moves_of,
    readers_left,
    with_moved_flows,
    with_real_ways,
    with_waiting,
    with_withdrawal,
)
from .rebuild_groups import RECOMPUTED, as_rebuilt, from_the_first, rebuild_change, together, with_readers, written_by
from .repartition import (
    Repartition,
    external_topics,
    obstacles,
    possible_repartitions,
    repartitioned,
    stays,
    still_read,
    together_with,
)

_NEVER = frozenset({RECORDS_MISSING, REFRESHED, KAFKA_REPLACED})
"""Changes of the log or of Kafka, not of the project."""


@dataclass(frozen=True)
class StartChanges:
    """The changes that a run finds at its start, and what it does about them.

    `changes`: application -> its changes, with the verdicts of this run. `recomputed`: rebuilt applications, in the
    order of the topologies. `moves`: topics that these take over from others. `repartitions`: external topics that are
    repartitioned before anything runs.
    """

    changes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    recomputed: tuple[str, ...] = ()
    moves: Moves = field(default_factory=Moves)
    repartitions: Mapping[str, Repartition] = field(default_factory=dict)

    def decided(self, application: str) -> tuple[Change, ...]:
        """The changes for which the application cannot start or be rebuilt, and those with which it may continue."""
        changes = self.changes.get(application, ())
        return tuple(change for change in changes if change.verdict is Verdict.ERROR or change.onward)

    def goes_on(self, application: str) -> bool:
        """Whether the application resumes with its present result: it is not rebuilt, and no change is an error."""
        changes = self.changes.get(application)
        stopped = changes is None or any(change.verdict is Verdict.ERROR for change in changes)
        return not stopped and application not in self.recomputed


def start_changes(
    log: PlacedLog,
    topologies: Sequence[Topology],
    committed: Mapping[str, Committed],
    owned: Collection[str] | None = None,
    others: Collection[str] = (),
    *,
    go_on: bool = False,
    staying: Mapping[str, HeadwaterError] | None = None,
) -> StartChanges:
    """The changes of the topologies of a run, and what the run does about them.

    `committed`: application -> its state, without those whose commits cannot be read. `owned`: the applications of the
    project's topologies; None if unknown. `others`: further applications of the run, with untyped expressions. `go_on`:
    changes that may apply from the next record on need no rebuild. `staying`: topic -> error for which it could not be
    repartitioned. Raises LogError.
    """
    possible = possible_repartitions(topologies, committed)
    against = {name: tuple(obstacles(log, topologies, move, owned, others)) for name, move in possible.items()}
    against |= {name: (stays(name, topologies[0], why),) for name, why in (staying or {}).items() if name in possible}
    stuck: dict[str, str] = {}
    while True:
        chosen = {name: move for name, move in possible.items() if name not in stuck and not against[name]}
        start = _ChangesOfRun(log, topologies, committed, owned, others, go_on, chosen).start_changes()
        more = _stuck(topologies, start.changes, chosen)
        if not more:
            break
        stuck |= more
    changes = dict(start.changes)
    for topology in topologies:
        name = topology.application
        read = [topic for topic in external_topics(topology) if topic in possible]
        waits = [together_with(possible[topic], name, stuck[topic]) for topic in read if stuck.get(topic, name) != name]
        stopped = dict.fromkeys(change for topic in read for change in against[topic])
        if name in changes:
            changes[name] = (*changes[name], *stopped, *waits)
    return replace(start, changes=changes)


def _stuck(
    topologies: Iterable[Topology], changes: Mapping[str, Sequence[Change]], topics: Collection[str]
) -> dict[str, str]:
    """Topic -> a reader that cannot start, for which the topic must stay as it is. Of `topics`."""
    stuck: dict[str, str] = {}
    for topology in topologies:
        name = topology.application
        if name not in changes or any(change.verdict is Verdict.ERROR for change in changes[name]):
            stuck |= {topic: name for topic in external_topics(topology) if topic in topics}
    return stuck


@dataclass
class _ChangesOfRun:
    """The changes of a run in which these external topics are repartitioned. Other fields: see `start_changes`."""

    log: PlacedLog
    topologies: Sequence[Topology]
    committed: Mapping[str, Committed]
    owned: Collection[str] | None
    others: Collection[str]
    go_on: bool
    repartitions: Mapping[str, Repartition]
    changes: dict[str, tuple[Change, ...]] = field(init=False)
    changed: set[str] = field(init=False)
    moves: Moves = field(init=False)

    def __post_init__(self) -> None:
        self.changes = {
            topology.application: changes_of(topology, self.committed[topology.application], self.owned)
            for topology in self.topologies
            if topology.application in self.committed
        }
        for name, changes in self.changes.items():
            if not self.committed[name].own.tasks.consumed:  # it has no result to rebuild
                self.changes[name] = tuple(repartitioned(changes, self.repartitions))
        self.changed = {name for name, changes in self.changes.items() if any(map(self._asks_for_it, changes))}
        self.moves = moves_of(self.log, self.topologies, self.committed, self.changes, self.owned, self.others)

    def start_changes(self) -> StartChanges:
        """All changes with the verdicts of the run."""
        found = self.changes
        before = {
            name: {*filter(None, read_by(self.log, name, state.own).values())} for name, state in self.committed.items()
        }
        for group in together(self.topologies, self.changed, self.moves, before):
            self._change_group(group)
        recomputed = tuple(
            topology.application
            for topology in self.topologies
            if any(change.kind == RECOMPUTED for change in found.get(topology.application, ()))
        )
        if self.go_on:
            found = {name: own if name in recomputed else continuing(own) for name, own in found.items()}
        found = {name: tuple(with_waiting(own, self.moves)) for name, own in found.items()}
        for first, *readers in (with_readers(self.topologies, name) for name in found):
            own = found[first.application]
            found[first.application] = with_ways_that_help(self.log, [first, *readers], own, self.owned)
        moves = self.moves.within(recomputed)
        with_moved = with_moved_flows(found, self.topologies, self.committed, moves)
        return StartChanges(with_moved, recomputed, moves, self.repartitions)

    def _change_group(self, group: Sequence[Topology]) -> None:
        """Replace the changes of topologies that are rebuilt together by those with the verdicts of the run."""
        changes = self.changes
        names = [topology.application for topology in group]
        if any(name not in self.committed or any(map(self._is_never, changes[name])) for name in names):
            return
        moves = self.moves.within(names)
        errors = self._errors_from_nothing(group, moves)
        stopped = [change for change in self._still_read(group, moves) if change.subject.application not in self.others]
        lacking = [change for one in group for change in incomplete(one, self.committed[one.application], names, moves)]
        changed = self.changed.intersection(names)
        asked = [change for name in changed for change in changes[name] if self._asks_for_it(change)]
        lacking += self._in_kafka(group, changed)
        if stopped or errors or lacking:
            for name in changed:
                own = self._stopped(name, errors.get(name, []), stopped, lacking)
                changes[name] = with_withdrawal(own, asked)
            return
        written = written_by(group)
        onward = all(may_continue(changes[name]) for name in changed)
        for topology in group:
            name = topology.application
            evolving = (as_rebuilt(change, written) for change in repartitioned(changes[name], self.repartitions))
            first = from_the_first(topology, self.committed[name])
            again = (read for read in first if topic_writer(topology, read.topic) not in names)
            # A topic that moves has two writers, which would have to restart together.
            alone = not moves.handed() and any(change.kind != RESET for change in asked)
            rebuilt = rebuild_change(topology, name in changed, again, may_continue=onward, may_restart=alone)
            if topology.is_mirror:
                rebuilt = mirror_change(topology, names)
            changes[name] = with_withdrawal((*evolving, rebuilt), asked)

    def _stopped(
        self, name: str, errors: Sequence[Change], stopped: Iterable[Change], lacking: Iterable[Change]
    ) -> tuple[Change, ...]:
        """The changes of an application that needs a rebuild and cannot have one. `errors`: errors of a start from
        nothing. `stopped`: readers that prevent it. `lacking`: topics with lost records.
        """
        own = self.changes[name]
        more = [change for change in errors if change not in own]
        if all(change in errors for change in own if self._asks_for_it(change)):
            return with_real_ways((*own, *more))  # no other change needs a rebuild
        readers = (replace(change, subject=Subject.of_topology(name)) for change in stopped)
        return with_real_ways((*own, *more, *readers, *lacking))

    def _in_kafka(self, group: Sequence[Topology], changed: Collection[str]) -> list[Change]:
        """The topics whose records in Kafka prevent the rebuild of a group."""
        names = {topology.application for topology in group}
        onward = all(may_continue(self.changes[name]) for name in changed)
        return [
            change
            for mirror in group
            if mirror.is_mirror
            for name in sorted(changed)
            for change in refused(mirror, self.committed[mirror.application].own, names, name, may_continue=onward)
        ]

    def _asks_for_it(self, change: Change) -> bool:
        """Whether a change needs a rebuild."""
        asked = change.verdict is Verdict.ERROR and not (self.go_on and change.onward)
        return asked and not self._is_never(change)

    def _is_never(self, change: Change) -> bool:
        """Whether a rebuild does not help: it is a change of the log, or the topology has to catch up first."""
        return change.kind in _NEVER or (self.go_on and CATCH_UP in change.ways)

    def _errors_from_nothing(self, group: Sequence[Topology], moves: Moves) -> dict[str, list[Change]]:
        """Application -> errors that would stop it even if it started from nothing, in new places of the log."""
        now, state = self.log.places(), self.committed[group[0].application]
        places = now.recomputing(contents_of(group, now, state.states[state.seeds]), 0)
        results = {topology.application: places.recomputed[topology.application].place for topology in group}
        beside = self.log.beside(results, moves.handed())
        errors: dict[str, list[Change]] = {}
        for topology in group:
            changes = changes_of(topology, Committed(beside, topology), self.owned)
            for change in repartitioned(changes, self.repartitions):
                if change.verdict is Verdict.ERROR:
                    errors.setdefault(topology.application, []).append(change)
        return errors

    def _still_read(self, group: Sequence[Topology], moves: Moves) -> Iterator[Change]:
        """Applications that have read from these topologies, or a topic that these take over, and are not rebuilt."""
        selected = " ".join(f"{topology.name}+" for topology in group)
        for other, topic in readers_left(
            self.log, {topology.application for topology in group}, moves, group[0].project
        ):
            yield still_read(other, topic, selected, self.owned)
