"""Maintenance of the log, and removal of generated files."""

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
from ..runtime.progress.resets import forget_state, locked
from ..runtime.records.schema import changelog_topic
from ..runtime.state.directory import StateDirectory, find_with_rebuilds
from ..suggestions import guess
from .arguments import check_names
from .runs import check_not_running
from .target import TARGET, Part


class NotInLogError(HeadwaterError):
    """The log has no records of a topic."""

    exit_code = 2

    def __init__(self, topic: str, names: Sequence[str]) -> None:
        super().__init__(f"the log has no topic {topic!r}", guess(topic, names, "`headwater log ls` lists its topics"))


class NothingWrittenError(HeadwaterError):
    """Nothing was committed yet for a topic or store of the project."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(f"nothing was written to the {kind} {name!r} yet", "`headwater build` seeds topics, and runs")


class UnknownApplicationError(HeadwaterError):
    """The log has no application of this project with this name."""

    exit_code = 2

    def __init__(self, application: str, names: Sequence[str]) -> None:
        super().__init__(
            f"the log has no application {application!r} of this project",
            guess(application, names, "`headwater log ls` lists its applications"),
        )


class Logs(Part):
    """The whole log, with applications that the project does not have any more."""

    def verify(self, progress: Progress) -> tuple[VerifiedApplication, ...]:
        """See `Project.verify_log`."""
        return Verification(self._target.log_to_read(), self._applications(), progress, self._readers()).run()

    def plan_repair(self, progress: Progress) -> tuple[Repair, ...]:
        """See `Project.plan_repair`."""
        return plan_repair(self._target.log_to_read(), progress, self._readers(), self._applications())

    def _applications(self) -> tuple[str, ...]:
        """The project's applications, whether or not they are in the log."""
        return (*self._files.applications(), self._files.seeds)

    def _readers(self) -> dict[str, list[str]]:
        """The applications that read each topic in the present project, whether or not they have run."""
        readers = defaultdict(list)
        for topology in self._files.resources.of_kinds("topology"):
            for parent in topology.parents:
                readers[parent.partition(".")[2]].append(f"{self._files.name}-{topology.name}")
        return readers

    def repair(self, planned: Sequence[Repair]) -> None:
        """See `Project.repair_log`."""
        log = self._target.log_to_read()
        for repair_ in planned:
            check_not_running(log, repair_.application)
        with locked(self._target.state_dir(), [repair_.application for repair_ in planned]):
            for repair_ in planned:
                repair(log, repair_)

    def clean(self, applications: Sequence[str]) -> tuple[CleanedApplication, ...]:
        """See `Project.clean_log`."""
        check_names("applications", applications)
        topologies, log = self._code.topologies(), self._target.log()
        settings = self._target.settings()
        policies = {each.application: policies_of(each, settings.delete_retention_ms) for each in topologies}
        policies[self._files.seeds] = policies_of_fed(topologies)
        # `latest` raises CommitsMissingError for one whose commits are gone.
        committed = [name for name in policies if log.commits(name).latest()]
        for name in applications:
            if name not in committed:
                raise UnknownApplicationError(name, committed)
        chosen = [name for name in committed if not applications or name in applications]
        for name in chosen:
            check_not_running(log, name)
        delay_ms = settings.file_delete_delay_ms
        with locked(self._target.state_dir(), chosen):
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
        applications = contents(
            self._target.log_to_read(),
            self._applications(),
            {name: policy_of(topic) for name, topic in declared.items()},
            {(topic.writer or self._files.seeds, name): topic.readers for name, topic in declared.items()},
        )
        if not topics:
            return applications
        topics_in_log = {topic.topic for application in applications for topic in application.topics}
        wanted = {topic for name in topics for topic in self._matching(name, topics_in_log)}
        return tuple(
            replace(application, topics=kept, held=tuple(stays for stays in application.held if stays.topic in wanted))
            for application in applications
            if (kept := tuple(topic for topic in application.topics if topic.topic in wanted)) or application.error
        )

    def _matching(self, name: str, topics_in_log: Collection[str]) -> list[str]:
        """The log's topics for a name: a topic, or the changelogs of a store, given as `store` or `topology.store`.

        Raises NotInLogError, NothingWrittenError.
        """
        resources = self._files.resources
        changelogs = [
            changelog_topic(f"{self._files.name}-{store.topology}", store.name)
            for store in resources.of_kinds("store")
            if name in (store.name, f"{store.topology}.{store.name}")
        ]
        matches = [name] if name in topics_in_log else [topic for topic in changelogs if topic in topics_in_log]
        if matches:
            return matches
        if changelogs or f"topic.{name}" in resources.by_id:
            raise NothingWrittenError(name, "store" if changelogs else "topic")
        stores, topics = resources.of_kinds("store"), resources.of_kinds("topic")
        raise NotInLogError(name, sorted({*topics_in_log, *(resource.name for resource in (*stores, *topics))}))


class Cleaning(Part):
    """Removes generated code and stores of the selected topologies, or of all that this project has or had."""

    def cleanable(self, *, state: bool) -> tuple[Path, ...]:
        """See `Project.cleanable`."""
        generated = [self._files.root / TARGET]
        if self._selection.narrows:
            generated = [self._files.root / TARGET / topology for topology in self._selection.topologies()]
        paths = [path for path in generated if path.exists()]
        return (*paths, *(directory.path for directory in (self._state_directories() if state else ())))

    def clean(self, *, state: bool) -> tuple[Path, ...]:
        """See `Project.clean`."""
        paths = self.cleanable(state=state)
        directories = self._state_directories() if state else []
        forget_state(directories)
        for path in set(paths) - {directory.path for directory in directories}:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        return paths

    def _state_directories(self) -> list[StateDirectory]:
        state_dir, project = local_state(self._target.settings()), self._files.name
        topologies = self._selection.topologies() if self._selection.narrows else ("*",)
        return [
            directory
            for path in ([] if state_dir is None else [state_dir])
            for topology in topologies
            for directory in find_with_rebuilds(path, f"{project}-{topology}")
        ]
