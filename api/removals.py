"""Resets, rewinds, removals from the log, and stores that the next run rebuilds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..compiler.model.project import TO_KAFKA
from ..compiler.selectors import SelectorError
from ..compiler.target_settings import with_pems
from ..errors import HeadwaterError
from ..runtime.changes.planning import StoreReset, read_again
from ..runtime.ir.topology import Topology
from ..runtime.kafka.worker import offsets_of
from ..runtime.log.declared_topics import applications_of
from ..runtime.log.log import Log
from ..runtime.log.state import LogState
from ..runtime.progress.committed import Committed
from ..runtime.progress.resets import (
    Removal,
    cancel_reset,
    plan_application_removal,
    plan_topic_removal,
    readers_of,
    remove,
    request_reset,
)
from ..runtime.progress.rewinding import Rewind, Whence, plan_rewind, rewind
from ..suggestions import closest, guess
from .arguments import check_name, check_names
from .plans import Plans
from .runs import check_not_rebuilding, check_not_running
from .target import Part

# Topologies that start again or resume elsewhere, and removal of what only the log has.


class ProducedError(HeadwaterError):
    """A move back of what writes to Kafka: Kafka's own position says that it has these records."""

    def __init__(self, topic: str, records: int) -> None:
        super().__init__(
            f"Kafka has {records:,} of these records of {topic}, and its position says so: it gets none of them again",
            f"to write all records again behind those that are there: headwater run --full-refresh --select {TO_KAFKA}",
        )


class UnknownRemainsError(HeadwaterError):
    """The log has no application and no topic of this name that can be removed.

    `known`: the names that can be removed. `declared`: names in the project.
    """

    exit_code = 2

    def __init__(self, name: str, known: Sequence[str], declared: Collection[str]) -> None:
        listed = "`headwater ls --orphans` lists applications, `headwater log ls` topics"
        if kept := closest(name, declared):
            listed = f"did you mean '{kept[0]}'? It is in the project: remove it there first"
        super().__init__(
            f"the log has nothing of the name {name!r} that the project does not have", guess(name, known, listed)
        )


class StillDeclaredError(HeadwaterError):
    """The project still has what was to be removed."""

    exit_code = 2

    def __init__(self, kind: str, name: str, place: str, hint: str) -> None:
        super().__init__(f"{kind} {name} is in the project ({place})", hint)


class StillReadError(HeadwaterError):
    """Something cannot be removed because `reader` has read `topic`."""

    def __init__(self, reader: str, topic: str, hint: str) -> None:
        super().__init__(f"{reader} has read {topic}, whose records would be removed", hint)


class Removals(Part):
    """Plans and does `reset`, `rewind` and `remove` on the log of the target."""

    def plan_reset(self, topologies: Sequence[str]) -> tuple[Removal, ...]:
        """See `Project.plan_reset`."""
        check_names("topologies", topologies)
        log = self._target.log_to_read()
        chosen = [f"{self._files.name}-{name}" for name in self._selection.matching(topologies)]
        begun = set(log.applications())
        self._check_readers(log, chosen, [])
        for name in chosen:
            check_not_running(log, name)
        return tuple(plan_application_removal(log, name) for name in chosen if name in begun)

    def plan_remove(self, names: Sequence[str]) -> tuple[Removal, ...]:
        """See `Project.plan_remove`."""
        check_names("names", names)
        self._files.require_valid()  # otherwise a topology or a topic may only seem to be gone
        log = self._target.log_to_read()
        applications, topics = list[str](), list[tuple[str, str]]()
        for name in dict.fromkeys(names):
            application = self._application(log, name)
            if application is not None:
                applications.append(application)
            else:
                topics.append((self._writer(log, name), name))
        topics = [topic for topic in topics if topic[0] not in applications]
        self._check_readers(log, applications, topics)
        for name in (*applications, *(writer for writer, _ in topics)):
            check_not_running(log, name)
        return (
            *(plan_application_removal(log, application) for application in applications),
            *(plan_topic_removal(log, writer, name) for writer, name in topics),
        )

    def plan_rewind(
        self, topology: str, topic: str, whence: Whence, partitions: Collection[int], *, keep_state: bool
    ) -> Rewind:
        """See `Project.plan_rewind`."""
        check_name("topology", topology)
        check_name("topic", topic)
        name = self._selection.matching_one(topology)
        log, application = self._target.log_to_read(), f"{self._files.name}-{name}"
        check_not_running(log, application)
        settings = self._target.settings_to_read()
        planned = plan_rewind(
            log,
            application,
            topic,
            whence,
            partitions,
            fed_by=self._files.seeds,
            keep_state=keep_state,
            kafka=lambda: offsets_of(with_pems(settings, self._files.root).kafka),
        )
        if planned.again and name == TO_KAFKA and settings.kafka and planned.kafka_id is None:
            raise ProducedError(topic, planned.again)
        return planned

    def rewind(self, planned: Rewind) -> None:
        """See `Project.rewind`."""
        log = self._target.log_to_read()
        check_not_running(log, planned.application)
        rewind(log, self._target.state_dir(), planned)

    def remove(self, planned: Sequence[Removal]) -> None:
        """See `Project.remove`."""
        log = self._target.log_to_read()
        for removal in planned:
            check_not_running(log, removal.application)
        with self._target.forgetting([removal.application for removal in planned if removal.whole]):
            remove(log, self._target.state_dir(), planned)

    def _application(self, log: Log, name: str) -> str | None:
        """The application without a topology for a name: the application's, or that of its former topology."""
        project = self._files.name
        for declared in self._files.resources.of_kinds("topology"):
            if name in (declared.name, f"{project}-{declared.name}"):
                again = (
                    f"`headwater reset {declared.name}` lets it start again; to remove it, remove its topology first"
                )
                raise StillDeclaredError("topology", declared.name, _place(declared.file, declared.line), again)
        gone = applications_of(log, project)
        return next((candidate for candidate in (name, f"{project}-{name}") if candidate in gone), None)

    def _writer(self, log: Log, topic: str) -> str:
        """The application that has the records of a topic which nothing declares, or which now has another writer."""
        applications = applications_of(log, self._files.name)
        written = {application: _own_topics(log, application) for application in (*applications, self._files.seeds)}
        declared = next(
            (resource for resource in self._files.resources.of_kinds("topic") if resource.name == topic), None
        )
        for application, topics in written.items():
            if topic in topics and not (declared is not None and self._writes(application, topic)):
                return application
        if declared is not None:
            first = "remove it from the project first, with everything that reads or writes it"
            raise StillDeclaredError("topic", topic, _place(declared.file, declared.line), first)
        owned, by_id = self._files.applications(), self._files.resources.by_id
        gone = [application for application in applications if application not in owned]
        known = [*gone, *(application.removeprefix(f"{self._files.name}-") for application in gone)]
        known += [name for topics in written.values() for name in topics if f"topic.{name}" not in by_id]
        raise UnknownRemainsError(
            topic, known, {*owned, *(resource.name for resource in by_id.values() if resource.topology is None)}
        )

    def _writes(self, application: str, topic: str) -> bool:
        """Whether an application (the seed application for external topics) is a topic's writer in the project."""
        declared = self._files.checked.topics.get(topic)
        return declared is None or (declared.writer or self._files.seeds) == application

    def _check_readers(self, log: Log, applications: Collection[str], topics: Collection[tuple[str, str]]) -> None:
        """Raise StillReadError if a remaining application has read what would be removed.

        Readers of a topic that now has another writer do not count: the next run rebuilds them.
        """
        gone = {
            *topics,
            *((application, name) for application in applications for name in _own_topics(log, application)),
        }
        owned = self._files.applications()
        reading = {
            (reader, topic): None
            for writer, topic in sorted(gone)
            for reader in readers_of(log, topic, None if writer == self._files.seeds else writer)
            if reader not in applications
            if not (reader in owned and (writer, topic) in topics and self._has_other_writer(writer, topic))
        }
        if not reading:
            return
        reader, topic = next(iter(reading))
        missing = self._all_readers(log, {reader for reader, _ in reading}) - set(applications)
        raise StillReadError(reader, topic, self._way_out(sorted(missing), applications))

    def _has_other_writer(self, writer: str, topic: str) -> bool:
        return topic in self._files.checked.topics and not self._writes(writer, topic)

    def _all_readers(self, log: Log, applications: set[str]) -> set[str]:
        more = {
            reader
            for application in applications
            for topic in _own_topics(log, application)
            for reader in readers_of(log, topic, application)
        }
        return applications if more <= applications else self._all_readers(log, applications | more)

    def _way_out(self, missing: Sequence[str], applications: Collection[str]) -> str:
        declared = self._files.applications()
        start = len(self._files.name) + 1
        gone = " ".join(application for application in missing if application not in declared)
        ways = [f"`headwater remove {gone}`"] if gone else []
        kept = [application for application in (*applications, *missing) if application in declared]
        if any(application in declared for application in missing):
            ways.append(f"`headwater reset {' '.join(application[start:] for application in kept)}`")
        return f"its readers start again with it: {', then '.join(ways)}"


def _own_topics(log: Log, application: str) -> list[str]:
    """The topics that an application has records of, without changelogs and internal topics."""
    state = LogState.load(log.commits(application))
    return sorted(name for name in state.written() if not name.startswith(f"{application}-"))


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


# Stores that the next run rebuilds.


class NoStoreToResetError(HeadwaterError):
    """A topology has no such store that could be rebuilt."""

    exit_code = 2


class StoreResets(Part):
    """Plans and requests rebuilds of stores. Nothing is computed here."""

    def plan(self, topology: str, stores: Sequence[str], *, withdraw: bool) -> StoreReset:
        """See `Project.plan_store_reset`."""
        check_name("topology", topology)
        check_names("stores", stores)
        plans = Plans(self._files, self._selection, self._spark)
        chosen, log = self._topology(plans, topology), self._target.log_to_read()
        wanted, application = tuple(dict.fromkeys(stores)), chosen.application
        own = Committed(log, chosen).own
        for store in wanted:
            _check(chosen, plans.topologies(), own, store)
        requested = tuple(store for store in wanted if store in own.resets)
        reset = StoreReset(chosen, wanted, requested, own.incarnation, withdraw)
        check_not_rebuilding(log, application)
        if withdraw:
            return reset
        plan = plans.plan_with_resets({application: wanted})
        return replace(reset, reads=read_again(plan, plans.topologies(), chosen, wanted), space=plan.space)

    def reset(self, planned: StoreReset) -> None:
        """See `Project.reset_store`."""
        log = self._target.log_to_read()
        check_not_rebuilding(log, planned.application)
        change = cancel_reset if planned.withdraw else request_reset
        change(log, planned.topology, planned.incarnation, planned.stores)

    def _topology(self, plans: Plans, selector: str) -> Topology:
        """The one topology that a selector matches."""
        name = self._selection.matching_one(selector)
        if name not in self._selection.topologies():
            raise SelectorError(selector, f"topology {name} is not selected", "select it too")
        chosen = next((topology for topology in plans.topologies() if topology.name == name), None)
        if chosen is None:
            what = f"types of some expressions in topology {name} are not known yet"
            raise NoStoreToResetError(what, "`headwater compile` finds them with Spark")
        return chosen


def _check(topology: Topology, others: Collection[Topology], own: LogState, name: str) -> None:
    """Raise NoStoreToResetError if a store cannot be rebuilt.

    `own`: the committed state of the topology's application.
    """
    declared = _stores(topology)
    if name in declared and name in own.topology.stores and own.tasks.consumed:
        return
    owner = next((other.name for other in others if name in _stores(other)), None)
    if name in declared:
        what = f"store {name} of {topology.application} has no rows yet: there is nothing to rebuild"
        hint = "`headwater run` fills it"
    elif name in {table_name for table in topology.global_tables for table_name in (table.name, table.store.name)}:
        what = f"{name} is a global table: each client has a copy of all rows of its topic, and computes none"
        hint = "`headwater clean --state` removes the copies; the next run loads them again"
    elif name in own.topology.stores:
        what = f"nothing in topology {topology.name} fills store {name} any more, so its rows cannot be rebuilt"
        hint = (
            "put back what has filled it, then reset it; if it has another name now, declare that with `was`; "
            "`headwater plan` shows what becomes of its rows"
        )
    elif owner is not None:
        what, hint = f"store {name} is not in topology {topology.name}", f"`headwater reset {owner} --store {name}`"
    else:
        what = f"topology {topology.name} has no store {name!r}"
        hint = guess(name, declared, f"it has {', '.join(declared)}" if declared else "it has no stores")
    raise NoStoreToResetError(what, hint)


def _stores(topology: Topology) -> list[str]:
    return [store.name for part in topology.subtopologies for store in part.stores]
