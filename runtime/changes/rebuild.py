"""Which changes a run carries out by computing results again, beside those that are there, and for which topologies.

What a topology has written is of one piece with its stores and positions. So all of it is computed again, and so is
what reads it. It is possible if a start from nothing would be: then the next run has no other reason to refuse.

Some changes may count from the next record on instead (`Change.onward`). They do where that was chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...errors import HeadwaterError
from ..ir.topology import Topology
from ..log.declared_topics import read_by
from ..log.placed_log import PlacedLog
from ..progress.committed import Committed
from .comparison import REFRESHED
from .contents import contents_of, incomplete, topic_writer
from .facets import CATCH_UP
from .found import RECORDS_MISSING, changes_of, with_ways_that_help
from .model import Change, Subject, Verdict
from .moves import (
    RESET,
    Moves,
    going_on,
    may_go_on,
    moves_of,
    readers_left,
    with_moved_flows,
    with_real_ways,
    with_waiting,
    with_withdrawal,
)
from .rebuild_groups import RECOMPUTED, computed_again, evolving_of, from_the_first, together, with_readers, written_by
from .repartition import (
    Repartition,
    fed_topics,
    obstacles,
    possible_repartitions,
    repartitioned,
    stays,
    still_read,
    together_with,
)

_NEVER = frozenset({RECORDS_MISSING, REFRESHED})
"""Changes of the log, not of the project."""


@dataclass(frozen=True)
class Judged:
    """`changes`: application -> all that has changed, as a run takes it. `recomputed`: applications whose results are
    computed again, in the order of the topologies. `moves`: the topics that these take over from others.
    `repartitions`: topics that are fed from outside, and whose records are put elsewhere before anything runs.
    """

    changes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    recomputed: tuple[str, ...] = ()
    moves: Moves = field(default_factory=Moves)
    repartitions: Mapping[str, Repartition] = field(default_factory=dict)

    def known(self, application: str) -> tuple[Change, ...]:
        """Why it cannot start, or why its result cannot be computed again; and changes with which it goes on."""
        changes = self.changes.get(application, ())
        return tuple(each for each in changes if each.verdict is Verdict.ERROR or each.onward)

    def goes_on(self, application: str) -> bool:
        """Whether it goes on with the result that it has: it is neither computed again nor refused, and all about it
        is known.
        """
        found = self.changes.get(application)
        refused = found is None or any(each.verdict is Verdict.ERROR for each in found)
        return not refused and application not in self.recomputed


@dataclass(frozen=True)
class _Run:
    """What there is to be judged: see `judge`."""

    log: PlacedLog
    topologies: Sequence[Topology]
    committed: Mapping[str, Committed]
    owned: Collection[str] | None
    others: Collection[str]
    go_on: bool


def judge(
    log: PlacedLog,
    topologies: Sequence[Topology],
    committed: Mapping[str, Committed],
    owned: Collection[str] | None = None,
    others: Collection[str] = (),
    *,
    go_on: bool = False,
    staying: Mapping[str, HeadwaterError] | None = None,
) -> Judged:
    """All that has changed, and what a run makes of it.

    `committed`: of each topology; those are left out whose commits cannot be read. `owned`: the applications of the
    project's topologies, if they are known. `others`: applications that a run has too, of which nothing is known yet.
    `go_on`: no result is computed again for changes that may count from the next record on. `staying`: topics whose
    records were to be put elsewhere and could not be, each with the reason. Raises LogError.
    """
    run = _Run(log, topologies, committed, owned, others, go_on)
    possible = possible_repartitions(topologies, committed)
    against = {name: tuple(obstacles(log, topologies, each, owned, others)) for name, each in possible.items()}
    against |= {name: (stays(name, topologies[0], why),) for name, why in (staying or {}).items() if name in possible}
    stuck: dict[str, str] = {}
    while True:
        chosen = {name: each for name, each in possible.items() if name not in stuck and not against[name]}
        judged = _Judging(run, chosen).judged()
        more = _stuck(topologies, judged.changes, chosen)
        if not more:
            break
        stuck |= more
    found = dict(judged.changes)
    for topology in topologies:
        name = topology.application
        read = [each for each in fed_topics(topology) if each in possible]
        waits = [together_with(possible[each], name, stuck[each]) for each in read if stuck.get(each, name) != name]
        stopped = dict.fromkeys(change for each in read for change in against[each])
        if name in found:
            found[name] = (*found[name], *stopped, *waits)
    return replace(judged, changes=found)


def _stuck(
    topologies: Iterable[Topology], found: Mapping[str, Sequence[Change]], topics: Collection[str]
) -> dict[str, str]:
    """Those of the `topics` that must stay as they are, each with a reader that is refused."""
    stuck: dict[str, str] = {}
    for topology in topologies:
        name = topology.application
        if name not in found or any(each.verdict is Verdict.ERROR for each in found[name]):
            stuck |= {topic: name for topic in fed_topics(topology) if topic in topics}
    return stuck


class _Judging:
    """What has changed in a run, if the records of some topics (`repartitions`) are put elsewhere first."""

    def __init__(self, run: _Run, repartitions: Mapping[str, Repartition]) -> None:
        self._run = run
        self._repartitions = repartitions
        found = {
            each.application: changes_of(each, run.committed[each.application], run.owned)
            for each in run.topologies
            if each.application in run.committed
        }
        for name, changes in found.items():
            if not run.committed[name].own.tasks.consumed:  # it has no result that would have to be computed again
                found[name] = tuple(repartitioned(changes, repartitions))
        self._found = found
        self._changed = {name for name, changes in found.items() if any(map(self._asks_for_it, changes))}
        self._moves = moves_of(run.log, run.topologies, run.committed, found, run.owned, run.others)

    def judged(self) -> Judged:
        """All changes, as the run takes them."""
        run, found = self._run, self._found
        before = {
            name: {*filter(None, read_by(run.log, name, each.own).values())} for name, each in run.committed.items()
        }
        for group in together(run.topologies, self._changed, self._moves, before):
            self._judge_group(group)
        recomputed = tuple(
            each.application
            for each in run.topologies
            if any(change.kind == RECOMPUTED for change in found.get(each.application, ()))
        )
        if run.go_on:
            found = {name: changes if name in recomputed else going_on(changes) for name, changes in found.items()}
        found = {name: tuple(with_waiting(changes, self._moves)) for name, changes in found.items()}
        for first, *readers in (with_readers(run.topologies, name) for name in found):
            changes = found[first.application]
            found[first.application] = with_ways_that_help(run.log, [first, *readers], changes, run.owned)
        moves = self._moves.within(recomputed)
        told = with_moved_flows(found, run.topologies, run.committed, moves)
        return Judged(told, recomputed, moves, self._repartitions)

    def _judge_group(self, group: Sequence[Topology]) -> None:
        """Put what the run makes of the changes of topologies that are computed again together in place of these."""
        run, found = self._run, self._found
        names = [each.application for each in group]
        if any(name not in run.committed or any(map(self._is_never, found[name])) for name in names):
            return
        moves = self._moves.within(names)
        refused = self._refused_from_nothing(group, moves)
        stopped = [each for each in self._still_read(group, moves) if each.subject.application not in run.others]
        lacking = [each for one in group for each in incomplete(one, run.committed[one.application], names, moves)]
        changed = self._changed.intersection(names)
        asked = [each for name in changed for each in found[name] if self._asks_for_it(each)]
        if stopped or refused or lacking:
            for name in changed:
                why = self._stopped(name, refused.get(name, []), stopped, lacking)
                found[name] = with_withdrawal(why, asked)
            return
        written = written_by(group)
        onward = all(may_go_on(found[name]) for name in changed)
        for topology in group:
            name = topology.application
            evolving = (evolving_of(each, written) for each in repartitioned(found[name], self._repartitions))
            first = from_the_first(topology, run.committed[name])
            again = (each for each in first if topic_writer(topology, each.topic) not in names)
            # A topic that moves has two writers, which would have to begin again together.
            alone = not moves.handed() and any(each.kind != RESET for each in asked)
            told = computed_again(topology, name in changed, again, may_go_on=onward, may_begin_again=alone)
            found[name] = with_withdrawal((*evolving, told), asked)

    def _stopped(
        self, name: str, refused: Sequence[Change], stopped: Iterable[Change], lacking: Iterable[Change]
    ) -> tuple[Change, ...]:
        """The changes of an application whose result would be computed again, and cannot be. `refused`: why it could
        not begin with nothing. `stopped`: readers that stand against it. `lacking`: records that are gone.
        """
        own = self._found[name]
        more = [each for each in refused if each not in own]
        if all(each in refused for each in own if self._asks_for_it(each)):
            return with_real_ways((*own, *more))  # no other change asks for its result to be computed again
        told = (replace(each, subject=Subject.of_topology(name)) for each in stopped)
        return with_real_ways((*own, *more, *told, *lacking))

    def _asks_for_it(self, change: Change) -> bool:
        """Whether a change has the result computed again, if that can be."""
        asked = change.verdict is Verdict.ERROR and not (self._run.go_on and change.onward)
        return asked and not self._is_never(change)

    def _is_never(self, change: Change) -> bool:
        """Whether it is one of the log, or needs no more than that the topology catches up first."""
        return change.kind in _NEVER or (self._run.go_on and CATCH_UP in change.ways)

    def _refused_from_nothing(self, group: Sequence[Topology], moves: Moves) -> dict[str, list[Change]]:
        """Why topologies could not even start from nothing, beside what is there."""
        run = self._run
        now, known = run.log.places(), run.committed[group[0].application]
        places = now.recomputing(contents_of(group, now, known.states[known.seeds]), 0)
        results = {each.application: places.recomputed[each.application].place for each in group}
        beside = run.log.beside(results, moves.handed())
        found: dict[str, list[Change]] = {}
        for topology in group:
            changes = changes_of(topology, Committed(beside, topology), run.owned)
            for change in repartitioned(changes, self._repartitions):
                if change.verdict is Verdict.ERROR:
                    found.setdefault(topology.application, []).append(change)
        return found

    def _still_read(self, group: Sequence[Topology], moves: Moves) -> Iterator[Change]:
        """Applications that have read from these topologies, or a topic that these take over, and that would not be
        computed again with them.
        """
        selected = " ".join(f"{each.name}+" for each in group)
        for other, topic in readers_left(self._run.log, {each.application for each in group}, moves, group[0].project):
            yield still_read(other, topic, selected, self._run.owned)
