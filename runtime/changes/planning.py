"""The plan of an application."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import HeadwaterError
from ..dataclass_json import to_plain
from ..ingest.seeds import SeedSpec
from ..ir.topology import Topic, Topology
from ..log.commit.descriptions import TopologyDescription
from ..log.declared_topics import WriterChangedError, applications_of
from ..log.placed_log import PlacedLog, called
from ..log.state import LogState
from ..log.state_parts.renamed import renamed_description
from ..progress.committed import Committed
from ..task_id import TaskKey
from .baseline import FormerNames, Manifest, ManifestError, seed_change
from .comparison import OTHER_READER, OTHER_WRITER, SOMETHING_ELSE, Comparison, written_by_another
from .facets import columns_change
from .found import renamed_changes
from .model import FROM_THE_FIRST, Change, ReadAgain, Subject, Verdict, Way, called_before, start_again
from .moves import RESET, going_on, likely_name, may_go_on, orphans, with_real_ways
from .plan import ApplicationPlan, Orphan, Plan, Space, space_of
from .rebuild import judge
from .rebuild_groups import (
    RECOMPUTED,
    beyond,
    computed_again,
    evolving_of,
    from_the_first,
    together,
    waiting,
    with_readers,
    written_by,
)
from .returned import settled, unknown_of

# Makes a plan. It reads commits only: no lock, no Spark, also while the project runs.


@dataclass(frozen=True)
class Planned:
    """A project as its files are now.

    `applications`: of all its topologies, planned or not. `unjudged`: planned topologies with expressions that have no
    type yet. `seeds`: topic -> its declaration and its seed. `places`: `<kind>.<name>`, for what is in a topology
    `<kind>.<topology>.<name>`, -> `file:line`. `go_on`: see `judge`. `former_names`: application -> what it was called
    before. `resets`: application -> stores that are taken to be reset, beside those that are.
    """

    project: str
    root: Path
    topologies: Sequence[Topology]
    applications: Collection[str]
    unjudged: Sequence[str] = ()
    seeds: Mapping[str, tuple[Topic, SeedSpec]] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    go_on: bool = False
    former_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resets: Mapping[str, Collection[str]] = field(default_factory=dict)

    def placed(self, change: Change) -> Change:
        """The change with its place, if the files say it and the change does not."""
        subject = change.subject
        inside = f"{subject.kind}.{subject.application.partition('-')[2]}.{subject.name}"
        found = self.places.get(inside) or self.places.get(f"{subject.kind}.{subject.name}")
        return change if change.place or not found else replace(change, place=found)

    def content(self) -> dict[str, str]:
        """Topology -> a hash of what it is; empty where not all types are known."""
        return {
            each.name: "" if any(unknown_of(TopologyDescription.of(each))) else each.content_hash
            for each in self.topologies
        }

    def not_judged(self, *, is_new: bool = False) -> tuple[ApplicationPlan, ...]:
        """Those of which nothing can be said, unless all of the project `is_new`: then nothing can stand against it."""
        return tuple(
            ApplicationPlan(name, f"{self.project}-{name}", self.places.get(f"topology.{name}"), judged=is_new)
            for name in self.unjudged
        )


def plan_on(log: PlacedLog, place: str, planned: Planned, state_dir: Path | None = None) -> Plan:
    """What the next run would do on a log. `state_dir`: of the stores on this machine. Raises LogError."""
    resets = planned.resets
    known = {
        each.application: Committed(log, each, resets=resets.get(each.application, ())) for each in planned.topologies
    }
    new = [
        (each.name, TopologyDescription.of(each))
        for each in planned.topologies
        if not known[each.application].own.tasks.consumed
    ]
    left = orphans(log, planned.project, planned.applications, new)
    seeds = LogState.load(log.commits(f"{planned.project}-seed"))
    not_judged = planned.not_judged(is_new=not seeds.number and not applications_of(log, planned.project))
    unjudged = [each.application for each in not_judged]
    judged = judge(log, planned.topologies, known, planned.applications, unjudged, go_on=planned.go_on)
    moved = {each.was for each in judged.moves.ready}
    left = tuple(replace(each, renamed=None) if each.application in moved else each for each in left)
    former = FormerNames(planned.former_names, applications_of(log, planned.project), "the log")
    applications = []
    for each in planned.topologies:
        own = known[each.application].own
        changes = (*judged.changes[each.application], *former.idle(each, own.topology, own.renaming))
        applications.append(_application(each, known[each.application], changes, planned, left))
    found = (seed_change(log, seeds, topic, spec, planned.root) for topic, spec in planned.seeds.values())
    return Plan(
        planned.project,
        place,
        applications=(*applications, *not_judged),
        seeds=tuple(planned.placed(each) for each in found if each is not None),
        orphans=left,
        space=space_of(log, judged.recomputed, place, state_dir),
        state=_state(known.values(), seeds),
        content=planned.content(),
        go_on=planned.go_on,
    )


def _application(
    topology: Topology, committed: Committed, changes: Sequence[Change], planned: Planned, left: Iterable[Orphan]
) -> ApplicationPlan:
    again = from_the_first(topology, committed)
    renamed = [renaming(topology, each.topology, again) for each in left if each.renamed == topology.name]
    return ApplicationPlan(
        topology.name,
        topology.application,
        planned.places.get(f"topology.{topology.name}"),
        begun=committed.own.tasks.consumed,
        changes=tuple(map(planned.placed, with_renaming(renamed, changes))),
        waiting=waiting(topology, committed),
        unknown=tuple(unknown_of(TopologyDescription.of(topology))),
    )


def renaming(topology: Topology, old: str, reads_again: tuple[ReadAgain, ...] = ()) -> Change:
    """A topology that is probably an earlier one under a new name."""
    return Change(
        "topology.renamed",
        Subject.of_topology(topology.application),
        Verdict.REPLACE,
        f"topology {old} is gone; is {topology.name} its new name? Then it would begin with nothing, and read again "
        "what is there",
        ways=(
            called_before(topology.name, old),
            Way(f"call it {old} again: it goes on from what is committed"),
            start_again(f"start it {FROM_THE_FIRST}", f"{topology.name}+"),
        ),
        reads_again=reads_again,
    )


def with_renaming(renamed: Sequence[Change], changes: Sequence[Change]) -> Iterator[Change]:
    """All changes. What the topology has written under its earlier name has no way out of its own then."""
    yield from renamed
    for change in changes:
        yield replace(change, ways=()) if renamed and change.kind == OTHER_WRITER else change


def _state(known: Iterable[Committed], seeds: LogState) -> dict[str, str]:
    """What is committed, in short: changes with each commit, but not with records that are appended to a topic."""
    found = {}
    for committed in known:
        mark = committed.own.mark
        found[committed.application] = "" if mark is None else f"{mark.number}-{mark.checksum:08x}"
    fed = {"topics": {name: to_plain(topic) for name, topic in seeds.topics.items()}}
    fed["seeds"] = {name: source.hash for name, source in seeds.seeds.items()}
    text = json.dumps(fed, sort_keys=True)
    found[seeds.application] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return dict(sorted(found.items()))


# How far the result of an application is that is computed again beside the one that it has.


@dataclass(frozen=True)
class Recomputation:
    """A result of an `application` that is computed again.

    `records`: those that it has taken so far. `of`: all that are there for it, of topics that it does not write itself;
    None if no run has begun with it. `status`: what the run that works on it has written last, as text.
    """

    application: str
    records: int = 0
    of: int | None = None
    status: str | None = None


def recomputations(log: PlacedLog, project: str) -> dict[str, Recomputation]:
    """All of a project, by application. Raises LogError."""
    places = log.places().recomputed
    mine = {name: each.place for name, each in places.items() if name.startswith(f"{project}-")}
    beside = log.beside(mine)
    return {name: _of(beside, name, f"{project}-seed") for name in mine}


def _of(log: PlacedLog, application: str, seeds: str) -> Recomputation:
    status = log.read_status(application)
    own = LogState.load(log.commits(application))
    if not own.topology.subtopologies:
        return Recomputation(application, status=status)
    found = list(_taken(log, own, application, seeds))
    return Recomputation(application, sum(n for n, _ in found), sum(n for _, n in found), status)


def _taken(log: PlacedLog, own: LogState, application: str, seeds: str) -> Iterator[tuple[int, int]]:
    """Of each partition that a task reads: records taken, and all that are there."""
    states: dict[str, LogState] = {}
    for name, part in own.topology.subtopologies.items():
        topics = {topic: own.topology.topics[topic] for topic in part.sources if topic in own.topology.topics}
        for topic, used in topics.items():
            writer = called(log, used.writer)[0] if used.writer else seeds
            if writer == application:
                continue
            if writer not in states:
                states[writer] = LogState.load(log.commits(writer))
            state = states[writer]
            for partition in range(used.partitions):
                positions = own.tasks.of(TaskKey(application, name, partition)).positions.get(topic, {})
                there = sum(each.records for each in state.ranges(topic, partition))
                yield there - beyond(state, topic, partition, positions)[0], there


# Makes a plan against a manifest: what would change about a deployed project whose log is not at hand.
#
# A manifest says what the topologies were, and nothing of what they have committed. So each counts as one that has
# consumed records, no position is known, and seeds are not compared.


def plan_against(manifest: Manifest, planned: Planned) -> Plan:
    """What would change. Raises ManifestError if it is of another project."""
    if manifest.project != planned.project:
        raise ManifestError(manifest.path, f"it is of project {manifest.project}, and this is {planned.project}")
    new = [
        (each.name, TopologyDescription.of(each))
        for each in planned.topologies
        if each.application not in manifest.topologies
    ]
    left = tuple(
        Orphan(application, application.partition("-")[2], renamed=likely_name(found, new))
        for application, found in manifest.topologies.items()
        if application not in planned.applications
    )
    applications = _judged(
        planned, [_compared_application(each, manifest, planned, left) for each in planned.topologies]
    )
    return Plan(
        planned.project,
        against=str(manifest.path),
        applications=(*applications, *planned.not_judged()),
        orphans=left,
        content=planned.content(),
        go_on=planned.go_on,
    )


def _compared_application(
    topology: Topology, manifest: Manifest, planned: Planned, left: tuple[Orphan, ...]
) -> ApplicationPlan:
    before, renames = manifest.topologies.get(topology.application), manifest.renames_in(topology)
    if before is not None:
        before = renamed_description(before, renames)
    known = manifest.declarations()
    then = before or TopologyDescription()
    current = TopologyDescription.of(settled(topology, then, lambda topic: known.get(topic.name)))
    former = FormerNames(planned.former_names, manifest.topologies, "the manifest")
    found: dict[tuple[str, str], Change] = {}
    compared = () if before is None else Comparison.of(topology, before, current).changes(consumed=True)
    columns = () if before is None else _columns(topology, before, current)
    names = tuple(renamed_changes(topology, renames))
    if names:  # its files have changed with its name, and that is told
        compared = tuple(change for change in compared if change.kind != SOMETHING_ELSE)
    idle = former.idle(topology, then, renames)
    for change in (*names, *_other_writers(topology, current, manifest, planned), *compared, *columns, *idle):
        found.setdefault((change.kind, change.subject.name), change)
    renamed = [renaming(topology, each.topology) for each in left if each.renamed == topology.name]
    return ApplicationPlan(
        topology.name,
        topology.application,
        planned.places.get(f"topology.{topology.name}"),
        begun=before is not None,
        changes=tuple(map(planned.placed, with_renaming(renamed, tuple(found.values())))),
        unknown=tuple(unknown_of(TopologyDescription.of(topology))),
    )


def _judged(planned: Planned, plans: Sequence[ApplicationPlan]) -> list[ApplicationPlan]:
    """The plans with what a run would compute again, if the topics still have all of their records."""
    found = {each.application: each for each in plans}
    own = {each.application: written_by([each]) for each in planned.topologies}
    refused = {
        name: [each for each in plan.changes if each.verdict is Verdict.ERROR and not (planned.go_on and each.onward)]
        for name, plan in found.items()
    }
    recomputed = set()
    for group in together(planned.topologies, {name for name, changes in refused.items() if changes}):
        names = [each.application for each in group]
        if not all(_is_of(each, own[name]) for name in names for each in refused[name]):
            continue
        onward = all(may_go_on(refused[name]) for name in names)
        for topology in group:
            plan = found[topology.application]
            changes = (evolving_of(each, written_by(group)) for each in plan.changes)
            changed = bool(refused[topology.application])
            made = computed_again(topology, changed, may_go_on=onward, may_begin_again=True)
            found[topology.application] = replace(plan, changes=(*changes, planned.placed(made)))
            recomputed.add(topology.application)
    chosen = going_on if planned.go_on else with_real_ways
    return [each if name in recomputed else replace(each, changes=chosen(each.changes)) for name, each in found.items()]


def _is_of(change: Change, sinks: Collection[str]) -> bool:
    """Whether a change is of what the topology makes. Records from outside, and those of others, stay as they are."""
    if change.kind in (OTHER_READER, OTHER_WRITER):
        return change.kind == OTHER_READER
    return change.subject.kind != "topic" or change.subject.name in sinks


def _columns(topology: Topology, before: TopologyDescription, current: TopologyDescription) -> Iterator[Change]:
    """The value columns of topics that are fed from outside: those of its records are not known here."""
    for name, topic in current.topics.items():
        if name in before.topics and topic.writer is None:
            change = columns_change(Subject("topic", name, topology.application), before.topics[name], topic)
            if change is not None:
                yield change


def _other_writers(
    topology: Topology, current: TopologyDescription, manifest: Manifest, planned: Planned
) -> Iterator[Change]:
    writers = {
        sink: application
        for application, description in manifest.topologies.items()
        for part in description.subtopologies.values()
        for sink in part.sinks
    }
    for name, topic in current.topics.items():
        if writers.get(name, topic.writer) != topic.writer:
            changed = WriterChangedError(name, writers[name], topic.writer)
            yield written_by_another(topology.application, changed, planned.applications)


# What it comes to if stores are computed again: told before it is asked for.


class StoreNotResetError(HeadwaterError):
    """Stores cannot be computed again: `application`, `stores`; `changes` are why. Nothing was changed."""

    def __init__(self, application: str, stores: Collection[str], changes: Sequence[Change]) -> None:
        names = ", ".join(stores)
        listed = "".join(f"\n  - {change}" for change in dict.fromkeys(changes))
        ways = dict.fromkeys(way for change in changes for way in change.ways)
        out = "".join(f"\n  - {way}" for way in ways)
        super().__init__(
            f"{names} of {application} cannot be computed again, and nothing was changed:{listed}"
            + (f"\n  ways out:{out}" if out else "")
        )
        self.application = application
        self.stores = tuple(stores)
        self.changes = tuple(changes)


@dataclass(frozen=True)
class StoreReset:
    """`stores` of a `topology` that are to be computed again, or that are left as they are with `withdraw`.

    `asked`: those of them that were asked for before. `incarnation`: of the application, which this was planned on.
    `reads`: the applications whose results are computed again with them, its own first -> what these read again.
    `space`: what that takes beside the present results.
    """

    topology: Topology
    stores: tuple[str, ...]
    asked: tuple[str, ...]
    incarnation: str
    withdraw: bool = False
    reads: Mapping[str, tuple[ReadAgain, ...]] = field(default_factory=dict)
    space: tuple[Space, ...] = ()

    @property
    def application(self) -> str:
        """Whose stores they are."""
        return self.topology.application

    @property
    def is_done(self) -> bool:
        """Whether it is so already."""
        return not self.asked if self.withdraw else self.asked == self.stores

    @property
    def records(self) -> int:
        """Of all topics that are read again."""
        return sum(each.records for read in self.reads.values() for each in read)

    @property
    def bytes(self) -> int:
        """About so many bytes these take in files."""
        return sum(each.bytes for read in self.reads.values() for each in read)


def read_again(
    plan: Plan, topologies: Sequence[Topology], topology: Topology, stores: Collection[str]
) -> dict[str, tuple[ReadAgain, ...]]:
    """The applications that a run computes again with stores of a topology, see `StoreReset.reads`. `plan`: of the run.

    Raises StoreNotResetError if it would refuse to.
    """
    application = topology.application
    changes = {each.application: each.changes for each in plan.applications}
    group = [each.application for each in with_readers(topologies, application)]
    if not any(each.kind == RECOMPUTED for each in changes[application]):
        refused = (change for name in group for change in changes[name] if change.verdict is Verdict.ERROR)
        raise StoreNotResetError(application, stores, list(_reasons(list(refused))))
    recomputed = {name: each for name in group for each in changes[name] if each.kind == RECOMPUTED}
    return {name: each.reads_again for name, each in recomputed.items()}


def _reasons(refused: Sequence[Change]) -> Iterator[Change]:
    """Why stores are not computed again, without what was only assumed: that somebody has asked for it."""
    assumed = {way for each in refused if each.kind == RESET for way in each.ways[:1]}
    for each in refused:
        if each.kind != RESET:
            yield replace(each, ways=tuple(way for way in each.ways if way not in assumed))
