"""Looking after the log, and removing what was generated."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import HeadwaterError
from ..runtime.cluster.spark.job import local_state
from ..runtime.log.cleaning.cleaner import CleanedApplication, clean_completely
from ..runtime.log.cleaning.deletions import policies_of, policies_of_fed, policy_of
from ..runtime.log.inspection.contents import ApplicationContents, contents
from ..runtime.log.inspection.copying import CopiedLog, copy_log
from ..runtime.log.inspection.repair import Repair, plan_repair, repair
from ..runtime.log.inspection.verification import Progress, Verification, VerifiedApplication
from ..runtime.progress.resets import forget_state, held
from ..runtime.records.schema import changelog_topic
from ..runtime.state.directory import StateDirectory, find_with_rebuilds
from ..suggestions import guess
from .arguments import check_names
from .files import CheckedFiles, Selection
from .runs import refuse_running
from .target import TARGET, GeneratedCode, Target

# Looks after the log of the target: what is in it, whether it is whole, and how to go on if it is not.


class NotInLogError(HeadwaterError):
    """The log has no records of a topic: `topic`."""

    exit_code = 2

    def __init__(self, topic: str, known: Sequence[str]) -> None:
        super().__init__(
            f"the log has no topic {topic!r}", guess(topic, known, "`headwater log ls` lists those that it has")
        )
        self.topic = topic


class NothingWrittenError(HeadwaterError):
    """The project has this topic or store, and nothing was committed for it yet: `name`."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(f"nothing was written to the {kind} {name!r} yet", "`headwater build` seeds topics, and runs")
        self.name = name


class UnknownApplicationError(HeadwaterError):
    """The log has nothing of an application of this project: `application`."""

    exit_code = 2

    def __init__(self, application: str, known: Sequence[str]) -> None:
        super().__init__(
            f"the log has no application {application!r} of this project",
            guess(application, known, "`headwater log ls` lists those that it has"),
        )
        self.application = application


class Logs:
    """The whole log, whichever applications of it the project still has."""

    def __init__(self, files: CheckedFiles, code: GeneratedCode, target: Target) -> None:
        self._files = files
        self._code = code
        self._target = target

    def verify(self, progress: Progress) -> tuple[VerifiedApplication, ...]:
        """See `Project.verify_log`."""
        return Verification(self._target.log_to_read(), self._applications(), progress, self._readers()).run()

    def plan_repair(self, progress: Progress) -> tuple[Repair, ...]:
        """See `Project.plan_repair`."""
        return plan_repair(self._target.log_to_read(), progress, self._readers(), self._applications())

    def _applications(self) -> tuple[str, ...]:
        """Those of the project, whether the log has anything of them or not."""
        return (*self._files.applications(), self._files.seeds)

    def _readers(self) -> dict[str, list[str]]:
        """The applications that read each topic as the project is now, whether they have run or not."""
        found = defaultdict(list)
        for topology in self._files.resources.of("topology"):
            for parent in topology.parents:
                found[parent.partition(".")[2]].append(f"{self._files.name}-{topology.name}")
        return found

    def repair(self, planned: Sequence[Repair]) -> None:
        """See `Project.repair_log`."""
        log = self._target.log_to_read()
        for each in planned:
            refuse_running(log, each.application)
        with held(self._target.state_dir(), [each.application for each in planned]):
            for each in planned:
                repair(log, each)

    def clean(self, applications: Sequence[str]) -> tuple[CleanedApplication, ...]:
        """See `Project.clean_log`."""
        check_names("applications", applications)
        topologies, log = self._code.topologies(), self._target.log()
        settings = self._target.settings()
        policies = {each.application: policies_of(each, settings.delete_retention_ms) for each in topologies}
        policies[self._files.seeds] = policies_of_fed(topologies)
        # `latest` raises CommitsMissingError for one whose commits are gone.
        known = [name for name in policies if log.commits(name).latest()]
        for name in applications:
            if name not in known:
                raise UnknownApplicationError(name, known)
        chosen = [name for name in known if not applications or name in applications]
        for name in chosen:
            refuse_running(log, name)
        delay_ms = settings.file_delete_delay_ms
        with held(self._target.state_dir(), chosen):
            return tuple(
                clean_completely(log, name, policies[name], delay_ms=delay_ms, topologies=topologies) for name in chosen
            )

    def copy(self, folder: Path, progress: Progress) -> CopiedLog:
        """See `Project.copy_log`."""
        return copy_log(self._target.log_to_read(), folder, progress)

    def contents(self, topics: Sequence[str]) -> tuple[ApplicationContents, ...]:
        """See `Project.log_contents`."""
        check_names("topics", topics)
        declared = {} if self._files.checked.diagnostics.has_errors else self._files.checked.topics
        found = contents(
            self._target.log_to_read(),
            self._applications(),
            {name: policy_of(topic) for name, topic in declared.items()},
            {(topic.writer or self._files.seeds, name): topic.readers for name, topic in declared.items()},
        )
        if not topics:
            return found
        known = {topic.topic for each in found for topic in each.topics}
        asked = {one for name in topics for one in self._of_name(name, known)}
        return tuple(
            replace(each, topics=some, held=tuple(held for held in each.held if held.topic in asked))
            for each in found
            if (some := tuple(topic for topic in each.topics if topic.topic in asked)) or each.error
        )

    def _of_name(self, name: str, known: Collection[str]) -> list[str]:
        """The topics of the log that a name means: a topic, or the changelogs of a store, `store` or `topology.store`.

        Raises NotInLogError, NothingWrittenError.
        """
        resources = self._files.resources
        of_store = [
            changelog_topic(f"{self._files.name}-{each.topology}", each.name)
            for each in resources.of("store")
            if name in (each.name, f"{each.topology}.{each.name}")
        ]
        meant = [name] if name in known else [topic for topic in of_store if topic in known]
        if meant:
            return meant
        if of_store or f"topic.{name}" in resources.by_id:
            raise NothingWrittenError(name, "store" if of_store else "topic")
        stores, topics = resources.of("store"), resources.of("topic")
        raise NotInLogError(name, sorted({*known, *(each.name for each in (*stores, *topics))}))


# Removes what Headwater has made of a project: generated code, and the stores on this machine.


class Cleaning:
    """Cleans the selected topologies; without a selection, all that this project has or had."""

    def __init__(self, files: CheckedFiles, selection: Selection, target: Target) -> None:
        self._files = files
        self._selection = selection
        self._target = target

    def cleanable(self, *, state: bool) -> tuple[Path, ...]:
        """See `Project.cleanable`."""
        generated = [self._files.root / TARGET]
        if self._selection.narrows:
            generated = [self._files.root / TARGET / topology for topology in self._selection.topologies()]
        found = [path for path in generated if path.exists()]
        return (*found, *(directory.path for directory in (self._state_directories() if state else ())))

    def clean(self, *, state: bool) -> tuple[Path, ...]:
        """See `Project.clean`."""
        doomed = self.cleanable(state=state)
        directories = self._state_directories() if state else []
        forget_state(directories)
        for path in set(doomed) - {directory.path for directory in directories}:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        return doomed

    def _state_directories(self) -> list[StateDirectory]:
        state_dir, project = local_state(self._target.settings()), self._files.name
        topologies = self._selection.topologies() if self._selection.narrows else ("*",)
        return [
            directory
            for here in ([] if state_dir is None else [state_dir])
            for topology in topologies
            for directory in find_with_rebuilds(here, f"{project}-{topology}")
        ]
