"""Plans: what the next run of a project would do."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..compiler.emit.calls import declared_topology
from ..compiler.outcomes import InvalidProjectError, Parsed
from ..compiler.pipeline import CheckedProject
from ..compiler.reading.source import without_notes
from ..errors import HeadwaterError
from ..runtime.changes.baseline import Manifest
from ..runtime.changes.found import RefreshRefusedError, check_refresh, errors_from_nothing, refused_in_kafka
from ..runtime.changes.model import Verdict
from ..runtime.changes.moves import orphans
from ..runtime.changes.plan import Orphan, Plan, PlanBasis
from ..runtime.changes.planning import Planned, plan_against, plan_on
from ..runtime.ingest.seeds import SeedSpec
from ..runtime.ir.topology import Topic, Topology
from ..runtime.state.directory import log_location
from .target import Part


class Plans(Part):
    """Compares the selected topologies, and the seeds that they need, with committed data. Nothing is written."""

    def plan(self, against: Path | None = None, *, go_on: bool = False) -> Plan:
        """See `Project.plan`."""
        if against is not None:
            planned = self._planned(go_on)
            manifest = Manifest.read(against).with_present_names(planned.former_names)
            return plan_against(manifest, planned)
        return self._plan_on_log(self._planned(go_on))

    def plan_with_resets(self, resets: Mapping[str, Collection[str]]) -> Plan:
        """What the next run would do if these stores were rebuilt: application -> stores."""
        return self._plan_on_log(replace(self._planned(go_on=False), resets=resets))

    def topologies(self) -> Sequence[Topology]:
        """The selected topologies as declared, without those that have expressions of unknown type."""
        return self._planned(go_on=False).topologies

    def require(self, plan: Plan | str | os.PathLike[str] | None, go_on: bool) -> bool:
        """Check that a plan still holds. Returns its `go_on`, or the given one without a plan.

        Spark is started for unknown types, and only if nothing else contradicts the plan. Raises PlanFileError,
        PlanOutdatedError.
        """
        if plan is None:
            return go_on
        made, now = self.check(plan, go_on)
        if not all(now.content.get(application.topology) for application in now.applications):
            _ = self._files.typed  # from now on, `plan` uses its types
            self.check(plan, go_on)
        return made.go_on

    def check(self, plan: Plan | str | os.PathLike[str], go_on: bool) -> tuple[PlanBasis, Plan]:
        """See `Project.check_plan`. Returns what the plan was made of, and the present plan."""
        made = PlanBasis.from_plan(plan) if isinstance(plan, Plan) else PlanBasis.read(Path(plan))
        now = self.plan(go_on=go_on or made.go_on)
        made.require(now)
        return made, now

    def check_refresh(self, applications: Collection[str], restarted: Collection[str]) -> None:
        """Check that the selected topologies can start again once `applications` are removed: see `check_refresh`."""
        planned, log = self._planned(go_on=False), self._target.log_to_read()
        check_refresh(log, planned.topologies, applications, planned.applications, restarted)

    def check_reset(self, applications: Collection[str]) -> None:
        """Check that applications can start again. Files with errors are not considered.

        Raises RefreshRefusedError.
        """
        if not applications or self._checked().diagnostics.has_errors:
            return
        log, planned = self._target.log_to_read(), self._planned(go_on=False)
        chosen = [topology for topology in planned.topologies if topology.application in applications]
        changes = {(change.kind, change.subject) for change in self.plan().changes if change.verdict is Verdict.ERROR}
        stopped = errors_from_nothing(log, chosen, applications, planned.applications)
        # What the plan accepts is fixed first by a run of all topologies.
        if rejected := [change for change in stopped if (change.kind, change.subject) in changes]:
            raise RefreshRefusedError(rejected)
        if in_kafka := list(refused_in_kafka(log, chosen, applications)):
            raise RefreshRefusedError(in_kafka)

    def outlook(self, *, go_on: bool = False) -> Plan | None:
        """See `Project.outlook`."""
        try:
            plan = self.plan(go_on=go_on)
        except (HeadwaterError, OSError):
            return None
        begun = plan.orphans or any(application.begun for application in plan.applications)
        return plan if begun and plan.verdict is not Verdict.NOTHING else None

    def orphans(self) -> tuple[Orphan, ...]:
        """See `Project.orphans`."""
        if self._files.parsed().ok:
            return self.plan().orphans
        return orphans(self._target.log_to_read(), self._files.name, self._files.applications())

    def _plan_on_log(self, planned: Planned) -> Plan:
        return plan_on(self._target.log_to_read(), self._place(), planned, self._target.state_dir())

    def _place(self) -> str:
        log = self._target.settings_to_read().log
        return log_location(log.name, log.options)

    def _checked(self) -> CheckedProject:
        checked: CheckedProject = vars(self._files).get("typed") or self._files.typed_without_spark
        return checked

    def _planned(self, go_on: bool) -> Planned:
        names = self._selection.topologies()
        checked = self._checked()
        if checked.diagnostics.has_errors:
            raise InvalidProjectError(
                Parsed(**{**self._files.parsed_fields(), "diagnostics": tuple(checked.diagnostics)})
            )
        graphs = {graph.name: graph for graph in checked.topologies}
        if any(name not in graphs for name in names):
            graphs = {graph.name: graph for graph in self._files.typed_or_unknown.topologies} | graphs
        return Planned(
            self._files.name,
            self._files.root,
            [declared_topology(graphs[name]) for name in names if name in graphs],
            self._files.applications(),
            [name for name in names if name not in graphs],
            {name: self._seed(name) for name in self._selection.seeds()},
            {
                resource.id: f"{resource.file}:{resource.line}"
                for resource in self._files.resources.by_id.values()
                if resource.line
            },
            go_on,
            self._target.settings_to_read().former_names,
        )

    def _seed(self, name: str) -> tuple[Topic, SeedSpec]:
        model = self._files.checked.model.topics[name]
        assert model.seed is not None
        return self._files.checked.topics[name], SeedSpec(**without_notes(model.seed.to_python()))
