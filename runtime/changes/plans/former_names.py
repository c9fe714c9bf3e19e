"""Finds each `was` that changes nothing: it has done its work, or names what nobody has committed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ....suggestions import guess
from ...log.commit.descriptions import TopologyDescription
from ...log.commit.renames import Renames
from ...topology import Topology
from ..model import Change, Subject, SubjectKind, Verdict


@dataclass(frozen=True)
class FormerNames:
    """What is known of the names before. `topologies`: application -> what it was called. `committed`: the applications
    that have committed something, under their names of now. `where`: `the log` or `the manifest`.
    """

    topologies: Mapping[str, tuple[str, ...]]
    committed: Collection[str]
    where: str

    def idle(self, topology: Topology, before: TopologyDescription, renames: Renames) -> Iterator[Change]:
        """Those of a topology that change nothing. `before`: what is committed of it. `renames`: what the next run
        renames. A step leaves its name in few places only, so of one that is not found nothing is said.
        """
        if not self.committed:
            return  # a log that has just begun, or a manifest of nothing
        subject = Subject.of_topology(topology.application)
        old = [_bare(name) for name in self.topologies.get(topology.application, ())]
        if old and not renames.application:
            yield self._idle(subject, old, bool(before.subtopologies), [*map(_bare, self.committed)])
        known, now = _names(before), _names(TopologyDescription.of(topology))
        if not any(part.steps for part in before.subtopologies.values()):
            return  # not committed, or by a version that did not name the flows
        renamed = {*renames.subtopologies.values(), *renames.stores.values(), *renames.steps.values()}
        for name, former in topology.was.items():
            if name not in now or name in renamed or (name not in known and known.keys() & {*former}):
                continue
            part = Subject(now[name], name, topology.application)
            yield self._idle(part, former, name in known, known.keys() - now.keys())

    def _idle(self, subject: Subject, former: Collection[str], has_run: bool, known: Collection[str]) -> Change:
        said = f"`was: {next(iter(former))}`" if len(former) == 1 else f"`was: [{', '.join(former)}]`"
        if has_run:
            what = (
                f"{said} changes nothing any more: {self.where} has it as {subject.name}. Once every copy of the log "
                "has, `was` can go"
            )
        else:
            close = guess(next(iter(former)), sorted(known), "")
            what = f"{said} names nothing that {self.where} has, so {subject.name} counts as new"
            what += f"; {close}" if close else ""
        return Change("was.idle", subject, Verdict.NOTHING, what)


def _names(found: TopologyDescription) -> dict[str, SubjectKind]:
    """The names of flows, tables and stores."""
    names: dict[str, SubjectKind] = dict.fromkeys(found.stores, "store")
    for part in found.subtopologies.values():
        names |= dict.fromkeys((step.flow for step in part.steps), "flow")
        names |= dict.fromkeys((filler.flow for filler in part.fillers), "flow")
    return names


def _bare(application: str) -> str:
    return application.partition("-")[2]
