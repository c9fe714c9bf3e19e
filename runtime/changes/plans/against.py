"""Makes a plan against a manifest: what would change about a deployed project whose log is not at hand.

A manifest says what the topologies were, and nothing of what they have committed. So each counts as one that has
consumed records, no position is known, and seeds are not compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ...log.commit.descriptions import TopologyDescription
from ...log.declared_topics import WriterChangedError
from ...log.state_parts.renamed import renamed_description
from ...topology import Topology
from ..comparison import OTHER_READER, SOMETHING_ELSE, Comparison
from ..found import renamed_changes
from ..inputs import OTHER_WRITER, written_by_another
from ..model import Change, Subject, Verdict
from ..recompute.evolving import computed_again, evolving_of, written_by
from ..recompute.groups import together
from ..recompute.onward import going_on, may_go_on, with_real_ways
from ..settling import settled, unknown_of
from ..topic_columns import columns_change
from .former_names import FormerNames
from .manifest import Manifest, ManifestError
from .orphans import likely_name
from .plan import ApplicationPlan, Orphan, Plan
from .planning import Planned, renaming, with_renaming


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
    applications = _judged(planned, [_application(each, manifest, planned, left) for each in planned.topologies])
    return Plan(
        planned.project,
        against=str(manifest.path),
        applications=(*applications, *planned.not_judged()),
        orphans=left,
        content=planned.content(),
        go_on=planned.go_on,
    )


def _application(topology: Topology, manifest: Manifest, planned: Planned, left: tuple[Orphan, ...]) -> ApplicationPlan:
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
        name: [each for each in plan.changes if each.verdict is Verdict.REFUSES and not (planned.go_on and each.onward)]
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
