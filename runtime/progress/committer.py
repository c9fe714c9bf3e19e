"""Commits of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from ..task_id import global_task

if TYPE_CHECKING:
    from .positions import Gap, OtherCommits


# Errors of committed progress that stop a run. Each carries its facts.


class FencedError(HeadwaterError):
    """Another driver has taken the application over. `generation` is that driver's.

    None: the application was fully refreshed, with new generations. `mine`: this run's generation;
    None if it has not claimed the application yet.
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
    """Another run has put the records of a topic into other partitions, which are read from their first records.

    `application`: that has read it, `topic`, `partitions` and `key`: what it has now.
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
    """The log does not hold the records of a topic that the application has consumed. `gaps`: topics and positions,
    or commits.
    """

    def __init__(self, application: str, gaps: Sequence[Gap | OtherCommits]) -> None:
        listed = "".join(f"\n  - {gap}" for gap in gaps)
        super().__init__(
            f"{application} has consumed records that the log does not hold any more:{listed}",
            "the log was changed by hand or put back in parts: put all of it back as it was at one moment, "
            "or start this application again from the beginning with --full-refresh",
        )
        self.application = application
        self.gaps = tuple(gaps)


# The driver's part of exactly-once: claims a generation, and writes the epochs of tasks as a sequence of commits.
#
# When an epoch is due is decided in `driver/epochs.py`: there is one commit for each epoch of a unit, the tasks of one
# subtopology on one client.


class Committer:
    """Writes the commits of one application under one generation. Used from the loop's thread only."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._seen = state.generation
        self.generation = -1

    @property
    def number(self) -> int:
        """The number of the application's last commit that is known here."""
        return self._state.number

    def claim(
        self,
        description: TopologyDescription,
        assignment: Mapping[str, Any] | None = None,
        begins: Callable[[], tuple[Beginning, ...]] = tuple,
    ) -> int:
        """Take the application over with the next generation, which fences every older driver.

        Raises FencedError if another driver has claimed it since this committer was made: that one began later. The
        incarnation stays that of the first claim. `begins` says where tasks begin in topics that they have not read.
        """
        while True:
            try:
                self._state.refresh()
                if self._state.generation != self._seen:
                    raise FencedError(self._state.application, None, self._state.generation)
                described = replace(description, incarnation=self._state.incarnation or description.incarnation)
                record = GenerationRecord(self._seen + 1, _now(), described, assignment or {}, begins=begins())
                self._state.commit(record)
            except CommitExistsError:
                continue
            except FullyRefreshedError as error:
                raise FencedError(self._state.application, None, None) from error
            self.generation = self._state.generation
            return self.generation

    def take_away(self) -> int:
        """Claim the application as it is, so that its driver ends; nobody works on it then. Raises FencedError as
        `claim` does.
        """
        return self.claim(self._state.topology, self._state.assignment)

    def commit(
        self, epoch: int, tasks: Sequence[TaskCommit], sources: Mapping[str, tuple[int, int]] | None = None
    ) -> int:
        """Commit the epoch of `tasks`, all or nothing. Returns the commit's number.

        `sources`: see `Committed.sources`. Raises FencedError when another driver has claimed the application.
        """
        noted = None if sources == self._state.sources else sources
        return self._commit(EpochRecord(self.generation, epoch, _now(), tuple(tasks), self._state.incarnation, noted))

    def assign(self, assignment: Mapping[str, Any]) -> int:
        """Note who has which tasks from now on; the commit's number. Raises FencedError."""
        return self._commit(AssignmentRecord(self.generation, _now(), assignment, self._state.incarnation))

    def list_snapshots(self, added: Sequence[StoreSnapshot], removed: Sequence[str]) -> int:
        """List copies of stores, and list others (`removed`: their paths) no more. Raises FencedError."""
        state = self._state
        return self._commit(SnapshotRecord(self.generation, _now(), tuple(added), tuple(removed), state.incarnation))

    def purge(self, purged: Sequence[Purged]) -> int:
        """Give up records that their readers have consumed. Raises FencedError."""
        return self._commit(PurgeRecord(self.generation, _now(), tuple(purged), self._state.incarnation))

    def rewrite(self, segments: Sequence[Listed], delay_ms: int = DELAY_MS) -> int:
        """Put segments in the place of others, whose files stay for `delay_ms`. Raises FencedError,
        SegmentsChangedError.
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
                self.check()  # the existing commit may be void: one by a driver of an earlier incarnation

    def check(self) -> None:
        """Raise FencedError if another driver has claimed the application. So an idle driver notices it too."""
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


# Which parts of an application have another name than when it was committed last, as the project says by `was`.
#
# Subtopologies, stores and repartition topics are named after flows, tables and steps. So a former name of one of these
# gives theirs. It counts only where the log has what was called so, the project has not, and the log has nothing of the
# new name: so `was` says nothing any more once the application has run under the new names.

_REPARTITION = "-repartition"


def renames_of(topology: Topology, own: LogState) -> Renames:
    """What is to be renamed of the application, apart from itself. `own`: its state."""
    seen = {name.partition(":")[0] for name in own.tasks.last_commit(global_task(own.application)).globals_}
    counted = {counter.rpartition(":")[0] for task in own.tasks.all() for counter in task.dropped}
    return renames_between(topology, own.topology, seen, counted)


def renames_between(
    topology: Topology, committed: TopologyDescription, seen: Collection[str] = (), counted: Collection[str] = ()
) -> Renames:
    """The same, of what an application has said of itself. `seen`: global tables that it has read, `counted`: flows and
    steps by which it has counted records.
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
        for flow in (*(each.flow for each in part.steps), *(each.flow for each in part.fillers))
    }
    inner = _found(topology.was, _owners(topics, prefix), _owners(known, prefix))
    return Renames(
        subtopologies=_found(topology.was, [part.name for part in parts], committed.subtopologies),
        stores=_found(topology.was, [store.name for part in parts for store in part.stores], committed.stores),
        topics={
            f"{before}{old}{after}": f"{before}{new}{after}"
            for old, new in inner.items()
            for before, after in ((prefix, _REPARTITION), (f"{topology.name}_", f"{_REPARTITION}{DEAD_LETTERS}"))
        },
        tables=_found(topology.was, tables, seen),
        steps=_found(topology.was, topology.was.keys() - tables, {*counted, *flows}),
    ).with_changelogs(application)


def _found(was: Mapping[str, tuple[str, ...]], now: Collection[str], committed: Collection[str]) -> dict[str, str]:
    """Old name -> new name of what is there under its old name only."""
    found: dict[str, str] = {}
    for name in now:
        if name in committed:
            continue
        old = next((old for old in former_names(was, name) if old in committed and old not in now), None)
        if old is not None and old not in found:
            found[old] = name
    return found


def former_names(was: Mapping[str, tuple[str, ...]], name: str) -> Iterator[str]:
    """What `name` was called before, also if it is named after something that was renamed."""
    for now, former in was.items():
        for old in former:
            if name == now:
                yield old
            elif name.startswith((f"{now}_", f"{now}-")):
                yield f"{old}{name.removeprefix(now)}"


def _owners(topics: Collection[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix).removesuffix(_REPARTITION) for name in sorted(topics)]
