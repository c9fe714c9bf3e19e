"""Makes plans: on a log, against a manifest, and of store resets."""

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
from ..progress.kafka_ends import as_committed
from ..task_id import TaskKey
from .baseline import FormerNames, Manifest, ManifestError, seed_change
from .comparison import OTHER_READER, OTHER_WRITER, SOMETHING_ELSE, Comparison, written_by_another
from .facets import columns_change
from .found import renamed_changes
from .model import FROM_THE_FIRST, Change, ReadAgain, Subject, Verdict, Way, called_before, start_again, with_changes
from .moves import RESET, continuing, likely_name, may_continue, orphans, with_real_ways
from .plan import ApplicationPlan, Orphan, Plan, Space, space_of
from .rebuild import start_changes
from .rebuild_groups import (
    RECOMPUTED,
    as_rebuilt,
    beyond,
    from_the_first,
    rebuild_change,
    together,
    waiting,
    with_readers,
    written_by,
)
from .returned import settled, unknown_of

# A plan reads commits only: it needs no lock and no Spark, and works while the project runs.


@dataclass(frozen=True)
class Planned:
    """A project as its files are now.

    `applications`: of all its topologies, planned or not. `untyped`: planned topologies with expressions that have no
    type yet. `seeds`: topic -> its declaration and its seed. `places`: `<kind>.<name>`, or `<kind>.<topology>.<name>`
    for parts of a topology, -> `file:line`. `go_on`: see `start_changes`. `former_names`: application -> its former
    names. `resets`: application -> stores that count as reset, besides those that are.
    """

    project: str
    root: Path
    topologies: Sequence[Topology]
    applications: Collection[str]
    untyped: Sequence[str] = ()
    seeds: Mapping[str, tuple[Topic, SeedSpec]] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    go_on: bool = False
    former_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resets: Mapping[str, Collection[str]] = field(default_factory=dict)

    def placed(self, change: Change) -> Change:
        """The change with its location in the files, if it has none of its own."""
        subject = change.subject
        inside = f"{subject.kind}.{subject.application.partition('-')[2]}.{subject.name}"
        place = self.places.get(inside) or self.places.get(f"{subject.kind}.{subject.name}")
        return change if change.place or not place else replace(change, place=place)

    def content(self) -> dict[str, str]:
        """Topology -> content hash; empty if not all types are known."""
        return {
            topology.name: "" if any(unknown_of(TopologyDescription.from_topology(topology))) else topology.content_hash
            for topology in self.topologies
        }

    def untyped_plans(self, *, is_new: bool = False) -> tuple[ApplicationPlan, ...]:
        """The plans of topologies with untyped expressions. `is_new`: nothing of the project is committed, so that all
        of them can start.
        """
        return tuple(
            ApplicationPlan(name, f"{self.project}-{name}", self.places.get(f"topology.{name}"), typed=is_new)
            for name in self.untyped
        )


def plan_on(log: PlacedLog, place: str, planned: Planned, state_dir: Path | None = None) -> Plan:
    """The plan of the next run on the log at `place`. `state_dir`: of the stores on this machine. Raises LogError."""
    resets = planned.resets
    # Without asking Kafka: a plan needs no network.
    topologies = [as_committed(topology, log.state(topology.application)) for topology in planned.topologies]
    planned = replace(planned, topologies=topologies)
    committed = {
        topology.application: Committed(log, topology, resets=resets.get(topology.application, ()))
        for topology in planned.topologies
    }
    new = [
        (topology.name, TopologyDescription.from_topology(topology))
        for topology in planned.topologies
        if not committed[topology.application].own.tasks.consumed
    ]
    left = orphans(log, planned.project, planned.applications, new)
    seeds = log.state(f"{planned.project}-seed")
    untyped_plans = planned.untyped_plans(is_new=not seeds.number and not applications_of(log, planned.project))
    untyped = [plan.application for plan in untyped_plans]
    start = start_changes(log, planned.topologies, committed, planned.applications, untyped, go_on=planned.go_on)
    moved = {move.was for move in start.moves.ready}
    left = tuple(replace(orphan, renamed=None) if orphan.application in moved else orphan for orphan in left)
    former = FormerNames(planned.former_names, applications_of(log, planned.project), "the log")
    applications = []
    for topology in planned.topologies:
        own = committed[topology.application].own
        changes = (*start.changes[topology.application], *former.idle(topology, own.topology, own.renaming))
        applications.append(_application(topology, committed[topology.application], changes, planned, left))
    seed_changes = (seed_change(log, seeds, topic, spec, planned.root) for topic, spec in planned.seeds.values())
    return Plan(
        planned.project,
        place,
        applications=(*applications, *untyped_plans),
        seeds=tuple(planned.placed(change) for change in seed_changes if change is not None),
        orphans=left,
        space=space_of(log, start.recomputed, place, state_dir),
        state=_state(committed.values(), seeds),
        content=planned.content(),
        go_on=planned.go_on,
    )


def _application(
    topology: Topology, committed: Committed, changes: Sequence[Change], planned: Planned, left: Iterable[Orphan]
) -> ApplicationPlan:
    again = from_the_first(topology, committed)
    renamed = [renaming(topology, orphan.topology, again) for orphan in left if orphan.renamed == topology.name]
    return ApplicationPlan(
        topology.name,
        topology.application,
        planned.places.get(f"topology.{topology.name}"),
        begun=committed.own.tasks.consumed,
        changes=tuple(map(planned.placed, with_renaming(renamed, changes))),
        waiting=waiting(topology, committed),
        unknown=tuple(unknown_of(TopologyDescription.from_topology(topology))),
    )


def renaming(topology: Topology, old: str, reads_again: tuple[ReadAgain, ...] = ()) -> Change:
    """The change of a topology that is probably an earlier one under a new name."""
    return Change(
        "topology.renamed",
        Subject.of_topology(topology.application),
        Verdict.REPLACE,
        f"topology {old} is gone; is {topology.name} its new name? Then it would start empty, and read all "
        "records again",
        ways=(
            called_before(topology.name, old),
            Way(f"call it {old} again: it resumes from the committed state"),
            start_again(f"start it {FROM_THE_FIRST}", f"{topology.name}+"),
        ),
        reads_again=reads_again,
    )


def with_renaming(renamed: Sequence[Change], changes: Sequence[Change]) -> Iterator[Change]:
    """All changes. With a renaming, changes of topics that the topology wrote under its earlier name have
    no ways out.
    """
    yield from renamed
    for change in changes:
        yield replace(change, ways=()) if renamed and change.kind == OTHER_WRITER else change


def _state(applications: Iterable[Committed], seeds: LogState) -> dict[str, str]:
    """Application -> a mark of its committed state. It changes with every commit, but not with appends to topics."""
    marks = {}
    for committed in applications:
        mark = committed.own.mark
        marks[committed.application] = "" if mark is None else f"{mark.number}-{mark.checksum:08x}"
    fed = {"topics": {name: to_plain(topic) for name, topic in seeds.topics.items()}}
    fed["seeds"] = {name: source.hash for name, source in seeds.seeds.items()}
    text = json.dumps(fed, sort_keys=True)
    marks[seeds.application] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return dict(sorted(marks.items()))


@dataclass(frozen=True)
class Recomputation:
    """The progress of a rebuild of an `application`.

    `records`: consumed so far. `of`: all records of its source topics, except those that it writes itself; None if no
    run has started it. `status`: the last status of the run that works on it, as JSON.
    """

    application: str
    records: int = 0
    of: int | None = None
    status: str | None = None


def recomputations(log: PlacedLog, project: str) -> dict[str, Recomputation]:
    """Application -> its unfinished rebuild, of a project. Raises LogError."""
    places = log.places().recomputed
    mine = {name: rebuild.place for name, rebuild in places.items() if name.startswith(f"{project}-")}
    beside = log.beside(mine)
    return {name: _of(beside, name, f"{project}-seed") for name in mine}


def _of(log: PlacedLog, application: str, seeds: str) -> Recomputation:
    status = log.read_status(application)
    own = log.state(application)
    if not own.topology.subtopologies:
        return Recomputation(application, status=status)
    counts = list(_taken(log, own, application, seeds))
    return Recomputation(application, sum(n for n, _ in counts), sum(n for _, n in counts), status)


def _taken(log: PlacedLog, own: LogState, application: str, seeds: str) -> Iterator[tuple[int, int]]:
    """(consumed records, all records) of every partition that a task reads."""
    for name, part in own.topology.subtopologies.items():
        topics = {topic: own.topology.topics[topic] for topic in part.sources if topic in own.topology.topics}
        for topic, used in topics.items():
            writer = called(log, used.writer)[0] if used.writer else seeds
            if writer == application:
                continue
            state = log.state(writer)
            for partition in range(used.partitions):
                positions = own.tasks.last_commit(TaskKey(application, name, partition)).positions.get(topic, {})
                there = sum(segments.records for segments in state.ranges(topic, partition))
                yield there - beyond(state, topic, partition, positions)[0], there


def plan_against(manifest: Manifest, planned: Planned) -> Plan:
    """The plan against the manifest of a deployed project, without its log.

    A manifest has the topologies, and nothing of their committed state. So all of them count as having consumed
    records, positions are unknown, and seeds are not compared. Raises ManifestError if it is of another project.
    """
    if manifest.project != planned.project:
        raise ManifestError(manifest.path, f"it is of project {manifest.project}, and this is {planned.project}")
    new = [
        (topology.name, TopologyDescription.from_topology(topology))
        for topology in planned.topologies
        if topology.application not in manifest.topologies
    ]
    left = tuple(
        Orphan(application, application.partition("-")[2], renamed=likely_name(description, new))
        for application, description in manifest.topologies.items()
        if application not in planned.applications
    )
    applications = _with_rebuilds(
        planned, [_compared_application(topology, manifest, planned, left) for topology in planned.topologies]
    )
    return Plan(
        planned.project,
        against=str(manifest.path),
        applications=(*applications, *planned.untyped_plans()),
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
    declarations = manifest.declarations()
    then = before or TopologyDescription()
    current = TopologyDescription.from_topology(settled(topology, then, lambda topic: declarations.get(topic.name)))
    former = FormerNames(planned.former_names, manifest.topologies, "the manifest")
    changes: dict[tuple[str, str], Change] = {}
    compared = () if before is None else Comparison.of(topology, before, current).changes(consumed=True)
    columns = () if before is None else _columns(topology, before, current)
    names = tuple(renamed_changes(topology, renames))
    if names:  # its files have changed with its name, which is reported
        compared = tuple(change for change in compared if change.kind != SOMETHING_ELSE)
    idle = former.idle(topology, then, renames)
    for change in (*names, *_other_writers(topology, current, manifest, planned), *compared, *columns, *idle):
        changes.setdefault((change.kind, change.subject.name), change)
    renamed = [renaming(topology, orphan.topology) for orphan in left if orphan.renamed == topology.name]
    return ApplicationPlan(
        topology.name,
        topology.application,
        planned.places.get(f"topology.{topology.name}"),
        begun=before is not None,
        changes=tuple(map(planned.placed, with_renaming(renamed, tuple(changes.values())))),
        unknown=tuple(unknown_of(TopologyDescription.from_topology(topology))),
    )


def _with_rebuilds(planned: Planned, plans: Sequence[ApplicationPlan]) -> list[ApplicationPlan]:
    """The plans with the rebuilds of a run, if the topics still have all of their records."""
    by_name = {plan.application: plan for plan in plans}
    own = {topology.application: written_by([topology]) for topology in planned.topologies}
    errors = {
        name: [
            change
            for change in plan.changes
            if change.verdict is Verdict.ERROR and not (planned.go_on and change.onward)
        ]
        for name, plan in by_name.items()
    }
    recomputed = set()
    for group in together(planned.topologies, {name for name, changes in errors.items() if changes}):
        names = [topology.application for topology in group]
        if not all(_is_of(change, own[name]) for name in names for change in errors[name]):
            continue
        onward = all(may_continue(errors[name]) for name in names)
        for topology in group:
            plan = by_name[topology.application]
            changes = (as_rebuilt(change, written_by(group)) for change in plan.changes)
            changed = bool(errors[topology.application])
            made = rebuild_change(topology, changed, may_continue=onward, may_restart=True)
            by_name[topology.application] = replace(plan, changes=(*changes, planned.placed(made)))
            recomputed.add(topology.application)
    chosen = continuing if planned.go_on else with_real_ways
    return [
        plan if name in recomputed else replace(plan, changes=chosen(plan.changes)) for name, plan in by_name.items()
    ]


def _is_of(change: Change, sinks: Collection[str]) -> bool:
    """Whether a change is about something that the topology computes, and not about records of others."""
    if change.kind in (OTHER_READER, OTHER_WRITER):
        return change.kind == OTHER_READER
    return change.subject.kind != "topic" or change.subject.name in sinks


def _columns(topology: Topology, before: TopologyDescription, current: TopologyDescription) -> Iterator[Change]:
    """The changed value columns of external topics, whose records are unknown here."""
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


class StoreNotResetError(HeadwaterError):
    """Stores cannot be rebuilt: `application`, `stores`, `changes` with the causes. Nothing was changed."""

    def __init__(self, application: str, stores: Collection[str], changes: Sequence[Change]) -> None:
        what = f"{', '.join(stores)} of {application} cannot be rebuilt, and nothing was changed"
        super().__init__(with_changes(what, changes))


@dataclass(frozen=True)
class StoreReset:
    """A reset of `stores` of a `topology`, which the next run rebuilds; with `withdraw` its withdrawal.

    `asked`: those of the stores with an earlier request. `incarnation`: of the application, on which this was planned.
    `reads`: the rebuilt applications, its own first -> records that they read again. `space`: of the rebuilt results,
    besides the present ones.
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
        """The application of the stores."""
        return self.topology.application

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        return not self.asked if self.withdraw else self.asked == self.stores

    @property
    def records(self) -> int:
        """Records of all topics that are read again."""
        return sum(again.records for read in self.reads.values() for again in read)

    @property
    def bytes(self) -> int:
        """The approximate size of these records in files."""
        return sum(again.bytes for read in self.reads.values() for again in read)


def read_again(
    plan: Plan, topologies: Sequence[Topology], topology: Topology, stores: Collection[str]
) -> dict[str, tuple[ReadAgain, ...]]:
    """The applications that a run rebuilds for stores of a topology, see `StoreReset.reads`. `plan`: of the run.

    Raises StoreNotResetError if it cannot.
    """
    application = topology.application
    changes = {application.application: application.changes for application in plan.applications}
    group = [topology.application for topology in with_readers(topologies, application)]
    if not any(change.kind == RECOMPUTED for change in changes[application]):
        errors = (change for name in group for change in changes[name] if change.verdict is Verdict.ERROR)
        raise StoreNotResetError(application, stores, list(_reasons(list(errors))))
    recomputed = {name: change for name in group for change in changes[name] if change.kind == RECOMPUTED}
    return {name: change.reads_again for name, change in recomputed.items()}


def _reasons(errors: Sequence[Change]) -> Iterator[Change]:
    """The causes for which stores cannot be rebuilt, without the request itself, which the plan has only assumed."""
    assumed = {way for change in errors if change.kind == RESET for way in change.ways[:1]}
    for change in errors:
        if change.kind != RESET:
            yield replace(change, ways=tuple(way for way in change.ways if way not in assumed))
