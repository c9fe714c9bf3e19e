"""Commits of a driver, and renames of an application."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import HeadwaterError
from ..ir.topology import Topology
from ..log.commit.descriptions import TopologyDescription
from ..log.commit.records import (
    DEAD_LETTERS,
    DELAY_MS,
    AssignmentRecord,
    Beginning,
    DriversRecord,
    Ends,
    EpochRecord,
    GenerationRecord,
    Purged,
    PurgeRecord,
    Renames,
    RewriteRecord,
    SnapshotRecord,
    StoreSnapshot,
    TaskCommit,
)
from ..log.errors import CommitExistsError, FullyRefreshedError, GenerationError
from ..log.log import Listed
from ..log.state import LogState
from ..log.state_parts.parts import later_ends
from ..task_id import TaskKey, global_task

if TYPE_CHECKING:
    from .positions import Gap, OtherCommits


class FencedError(HeadwaterError):
    """Another driver has claimed the application, with `generation`.

    None: the application was fully refreshed, and generations start anew. `mine`: this run's generation; None if it has
    not claimed the application yet.
    """

    def __init__(self, application: str, mine: int | None, generation: int | None) -> None:
        if generation is None:
            what = f"{application} was fully refreshed by another run"
        else:
            own = "" if mine is None else f", this one is {mine}"
            what = f"another run of {application} has started (generation {generation}{own})"
        super().__init__(f"{what}; this run stops", "let only one run of an application work on a log")
        self.application = application
        self.mine = mine
        self.generation = generation


class TopicRepartitionedError(HeadwaterError):
    """Another run has repartitioned a topic, which is read from its first records again.

    `application`: the reader. `partitions`, `key`: the topic's present ones.
    """

    def __init__(self, application: str, topic: str, partitions: int, key: str) -> None:
        super().__init__(
            f"the records of {topic} were put elsewhere by another run, by the key {key or '(none)'} into "
            f"{partitions} partition{'' if partitions == 1 else 's'}; this run of {application} stops",
            "run the project that declares it so: what was committed so far stays until that has computed it again",
        )
        self.application = application
        self.topic = topic
        self.partitions = partitions
        self.key = key


class ConsumedRecordsMissingError(HeadwaterError):
    """Records that the application has consumed are missing from the log. `gaps`: positions or commits."""

    def __init__(self, application: str, gaps: Sequence[Gap | OtherCommits]) -> None:
        listed = "".join(f"\n  - {gap}" for gap in gaps)
        super().__init__(
            f"{application} has consumed records that the log does not hold any more:{listed}",
            "the log was changed by hand or put back in parts: put all of it back as it was at one moment, "
            "or start this application again from the beginning with --full-refresh",
        )
        self.application = application
        self.gaps = tuple(gaps)


# The driver's part of exactly-once: it claims a generation, and commits the epochs of tasks. `driver/epochs.py` decides
# when an epoch is due. Each epoch of a unit, the tasks of one subtopology on one client, is one commit.


def _with_first(described: TopologyDescription, state: LogState, begins: Iterable[Beginning]) -> TopologyDescription:
    """The description with the first offsets of its raw topics: where their tasks begin now, or have begun before.

    Every move of positions is followed by a claim, so that what is read again counts from then on.
    """
    starts = {(begin.subtopology, begin.topic): begin.positions for begin in begins}
    topics = dict(described.topics)
    for name, part in described.subtopologies.items():
        for source in part.sources:
            used, before = topics[source], state.topology.topics.get(source)
            if used.kafka_id is None:
                continue
            first = before.first if before is not None and before.kafka_id == used.kafka_id else ()
            now = []
            for partition in range(used.partitions):
                task = state.tasks.last_commit(TaskKey(state.application, name, partition))
                lanes = starts.get((name, source), {}).get(partition) or task.positions.get(source, {})
                now.append(min([*lanes.values(), *first[partition : partition + 1]], default=0))
            topics[source] = replace(used, first=tuple(now))
    return replace(described, topics=topics)


class Committer:
    """Writes the commits of one application under one generation. Used from the loop's thread only."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._seen = state.generation
        self.generation = -1

    @property
    def number(self) -> int:
        """The number of the application's last known commit."""
        return self._state.number

    def claim(
        self,
        description: TopologyDescription,
        assignment: Mapping[str, Any] | None = None,
        begins: Callable[[], tuple[Beginning, ...]] = tuple,
        ends: Callable[[], Ends] = dict,
    ) -> int:
        """Claim the application with the next generation, which fences older drivers. Returns the generation.

        The incarnation stays that of the first claim. `begins`: returns the starts in new topics. `ends`: called after
        it, see `Ends`; without any, the known ones stay. Raises FencedError if another driver has claimed the
        application since this committer was created: that one started later.
        """
        while True:
            try:
                self._state.refresh()
                if self._state.generation != self._seen:
                    raise FencedError(self._state.application, None, self._state.generation)
                described = replace(description, incarnation=self._state.incarnation or description.incarnation)
                starts = begins()
                described = _with_first(described, self._state, starts)
                record = GenerationRecord(
                    self._seen + 1, _now(), described, assignment or {}, begins=starts, ends=ends() or None
                )
                self._state.commit(record)
            except CommitExistsError:
                continue
            except FullyRefreshedError as error:
                raise FencedError(self._state.application, None, None) from error
            self.generation = self._state.generation
            return self.generation

    def take_away(self) -> int:
        """Claim the application without a change, to fence its driver. Raises FencedError, see `claim`."""
        return self.claim(self._state.topology, self._state.assignment)

    def commit(
        self,
        epoch: int,
        tasks: Sequence[TaskCommit],
        sources: Mapping[str, tuple[int, int]] | None = None,
        ends: Ends | None = None,
    ) -> int:
        """Commit the epoch of `tasks` atomically. Returns the commit's number.

        `sources`: see `Committed.sources`. `ends`: of raw topics before the epoch was planned. Raises FencedError if
        another driver has claimed the application.
        """
        changed = None if sources == self._state.sources else sources
        later = later_ends(self._state.ends, ends or {}) or None
        return self._commit(
            EpochRecord(self.generation, epoch, _now(), tuple(tasks), self._state.incarnation, changed, later)
        )

    def assign(self, assignment: Mapping[str, Any]) -> int:
        """Commit a new assignment. Returns the commit's number. Raises FencedError."""
        return self._commit(AssignmentRecord(self.generation, _now(), assignment, self._state.incarnation))

    def list_snapshots(self, added: Sequence[StoreSnapshot], removed: Sequence[str]) -> int:
        """Commit new snapshots of stores, and the removal of others. `removed`: their paths. Raises FencedError."""
        state = self._state
        return self._commit(SnapshotRecord(self.generation, _now(), tuple(added), tuple(removed), state.incarnation))

    def purge(self, purged: Sequence[Purged]) -> int:
        """Commit the removal of consumed records. Raises FencedError."""
        return self._commit(PurgeRecord(self.generation, _now(), tuple(purged), self._state.incarnation))

    def rewrite(self, segments: Sequence[Listed], delay_ms: int = DELAY_MS) -> int:
        """Commit replacements of segments.

        Replaced files stay for `delay_ms`. Raises FencedError, SegmentsChangedError.
        """
        return self._commit(RewriteRecord(self.generation, _now(), tuple(segments), self._state.incarnation, delay_ms))

    def _commit(self, record: DriversRecord) -> int:
        while True:
            try:
                self._state.commit(record)
                return self.number
            except FullyRefreshedError as error:
                raise self._fenced() from error
            except GenerationError as error:
                raise self._fenced(error.current) from error
            except CommitExistsError:
                self.check()  # the existing commit may be void: by a driver of an earlier incarnation

    def check(self) -> None:
        """Raise FencedError if another driver has claimed the application, so that an idle driver notices it too."""
        try:
            self._state.refresh()
        except FullyRefreshedError as error:
            raise self._fenced() from error
        if self._state.generation != self.generation:
            raise self._fenced(self._state.generation)

    def _fenced(self, generation: int | None = None) -> FencedError:
        return FencedError(self._state.application, self.generation, generation)


def _now() -> int:
    return time.time_ns() // 1_000_000


# Renames of parts of an application since its last commit, by `was` in the project.
#
# Subtopologies, stores and repartition topics have names of flows, tables and steps in theirs, and are renamed with
# them. `was` has an effect only if the log has the old name and not the new one, and the project has not the old one.
# So it has none after the application has run under the new names.

_REPARTITION = "-repartition"


def renames_of(topology: Topology, own: LogState) -> Renames:
    """The renames of the application's parts. `own`: its state."""
    seen = {name.partition(":")[0] for name in own.tasks.last_commit(global_task(own.application)).globals_}
    counted = {counter.rpartition(":")[0] for task in own.tasks.all() for counter in task.dropped}
    return renames_between(topology, own.topology, seen, counted)


def renames_between(
    topology: Topology, committed: TopologyDescription, seen: Collection[str] = (), counted: Collection[str] = ()
) -> Renames:
    """The renames from a committed description to the topology.

    `seen`: global tables that the application has read. `counted`: flows and steps in its counters of dropped records.
    """
    application = topology.application
    if not topology.was or not committed.subtopologies:
        return Renames()
    parts = topology.subtopologies
    prefix = f"{application}-"
    topics = {name for part in parts for name in part.repartition_topics}
    known = {name for name in committed.topics if name.startswith(prefix) and name.endswith(_REPARTITION)}
    tables = {table.name for table in topology.global_tables}
    flows = {
        flow
        for part in committed.subtopologies.values()
        for flow in (*(step.flow for step in part.steps), *(filler.flow for filler in part.fillers))
    }
    inner = _renamed(topology.was, _owners(topics, prefix), _owners(known, prefix))
    return Renames(
        subtopologies=_renamed(topology.was, [part.name for part in parts], committed.subtopologies),
        stores=_renamed(topology.was, [store.name for part in parts for store in part.stores], committed.stores),
        topics={
            f"{before}{old}{after}": f"{before}{new}{after}"
            for old, new in inner.items()
            for before, after in ((prefix, _REPARTITION), (f"{topology.name}_", f"{_REPARTITION}{DEAD_LETTERS}"))
        },
        tables=_renamed(topology.was, tables, seen),
        steps=_renamed(topology.was, topology.was.keys() - tables, {*counted, *flows}),
    ).with_changelogs(application)


def _renamed(was: Mapping[str, tuple[str, ...]], now: Collection[str], committed: Collection[str]) -> dict[str, str]:
    """Old name -> new name, of names that are committed under the old name only."""
    renames: dict[str, str] = {}
    for name in now:
        if name in committed:
            continue
        old = next((old for old in former_names(was, name) if old in committed and old not in now), None)
        if old is not None and old not in renames:
            renames[old] = name
    return renames


def former_names(was: Mapping[str, tuple[str, ...]], name: str) -> Iterator[str]:
    """Former names of `name`, also if it only contains the name of something renamed."""
    for now, former in was.items():
        for old in former:
            if name == now:
                yield old
            elif name.startswith((f"{now}_", f"{now}-")):
                yield f"{old}{name.removeprefix(now)}"


def _owners(topics: Collection[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix).removesuffix(_REPARTITION) for name in sorted(topics)]
