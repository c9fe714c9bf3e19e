"""Makes a plan. It reads commits only: no lock, no Spark, also while the project runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...dataclass_json import to_plain
from ...ingest.seeds import SeedSpec
from ...log.commit.descriptions import TopologyDescription
from ...log.declared_topics import applications_of
from ...log.placed.log import PlacedLog
from ...log.state import LogState
from ...progress.committed import Committed
from ...topology import Topic, Topology
from ..inputs import OTHER_WRITER
from ..model import Change, ReadAgain, Subject, Verdict, Way
from ..recompute.judging import judge
from ..settling import unknown_of
from ..ways import FROM_THE_FIRST, called_before, start_again
from .former_names import FormerNames
from .orphans import orphans
from .plan import ApplicationPlan, Orphan, Plan
from .seeds import seed_change
from .space import space_of
from .waiting import from_the_first, waiting


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
        Verdict.EVOLVES,
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
