"""Cleaning of topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import HeadwaterError
from ...ir.topology import Topology
from ...records.arrays import Bools, Int64s, to_numpy
from ..commit.records import DELAY_MS, RewriteRecord
from ..durable_files import collect_garbage
from ..errors import CommitExistsError, RangeMissingError, SegmentError, SegmentsChangedError, UnreadableFileError
from ..log import Listed, Log
from ..segments.segment import Segment
from ..state import LogState
from .compaction import (
    LIMITS,
    Exchange,
    Files,
    LastPositions,
    Limits,
    Says,
    Stay,
    fetched,
    keys_of,
    left_of,
    nothing_of,
)
from .deletions import Policy
from .held import HeldBack, Lanes, Waiting, wall_ms
from .jobs import Failures, Job, LaneFailedError, jobs
from .readers import declared_readers

# One round of cleaning of an application: what is due is read, and what is left of it is written.
#
# It changes nothing that anybody sees. That is done by whoever commits the result: `Cleaned`.

ROUND_BYTES = 256 << 20
"""A round begins with no further lane once it has read so many bytes: the next one goes on."""


class CleaningStoppedError(Exception):
    """The round was to end, before it had anything to commit."""


@dataclass(frozen=True)
class Cleaned:
    """What a round has come to. `exchanges`: segments that are to take the place of others: all of each, or none.
    `files`: what was written for that. `read`: how many segments were looked at. `more`: whether there is more
    to do. `damage`: what could not be read, and is left as it is. `held`: what stays for readers.
    """

    exchanges: tuple[Exchange, ...] = ()
    files: tuple[str, ...] = ()
    read: int = 0
    more: bool = False
    damage: tuple[HeadwaterError, ...] = ()
    held: tuple[HeldBack, ...] = ()

    def fitting(self, state: LogState) -> tuple[Segment, ...]:
        """The new segments for those that are still there: nothing else has taken their place since they were read."""
        return tuple(segment for each in self.exchanges if state.fits(each.new, each.replaced) for segment in each.new)

    def unlisted(self, committed: Sequence[Segment]) -> tuple[str, ...]:
        """Files that have become superfluous, if only these segments were committed."""
        listed = {segment.path for segment in committed}
        return tuple(path for path in self.files if path not in listed)


class Cleaner:
    """Cleans one application's topics. `policies`: by topic; a topic without one is only merged. `topologies`: those
    that run or are about to: they and the readers that their topics name count before they have committed anything.
    `seconds`: a clock that never goes back. `now`: the time, ms.

    Used by one thread at a time, any thread.
    """

    def __init__(
        self,
        log: Log,
        policies: Mapping[str, Policy],
        limits: Limits = LIMITS,
        topologies: Iterable[Topology] = (),
        seconds: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = wall_ms,
    ) -> None:
        self._log = log
        self._policies = policies
        self._limits = limits
        self._failures = Failures(seconds)
        self._lanes = Lanes(log, policies, declared_readers(topologies), now)

    def round(self, state: LogState, may_go_on: Callable[[], bool] = lambda: True) -> Cleaned:
        """Do what is due, as far as `may_go_on` lets it.

        Raises CleaningStoppedError, LogError, OSError and MachineError; what was written is removed then.
        """
        files = Files(self._log, state.application, state.incarnation, state.generation)
        try:
            return self._round(state, may_go_on, files)
        except BaseException:
            files.remove()
            raise

    def _round(self, state: LogState, may_go_on: Callable[[], bool], files: Files) -> Cleaned:
        done: list[Exchange] = []
        damage: list[HeadwaterError] = []
        size, count, topic, more = 0, 0, "", False
        self._failures.begin()
        waiting = Waiting(self._limits)
        for lane, policy in self._lanes.of(state):
            waiting.add(lane, policy)
            todo = tuple(jobs(lane, policy, self._limits))
            if not todo:
                continue
            if size >= ROUND_BYTES:
                more = True
                break
            if lane.topic != topic:
                files.flush()
                topic = lane.topic
            for job in todo:
                error = self._failures.of(job)
                if error is None:
                    exchange = Exchange()
                    error = self._tried(job, state, files, exchange, may_go_on)
                    done.append(exchange)
                if error is None:
                    # Not of what cannot be read: what is behind it has its turn.
                    size += job.size
                    count += sum(len(group) for group in job.groups)
                else:
                    damage.append(error)
        files.flush()
        exchanges = tuple(each for each in done if each.new and not each.failed)
        return Cleaned(exchanges, files.written, count, more, tuple(dict.fromkeys(damage)), waiting.held())

    def _tried(
        self, job: Job, state: LogState, files: Files, into: Exchange, may_go_on: Callable[[], bool]
    ) -> HeadwaterError | None:
        """Do a job; why it has failed, if only this job has. What ends all others, too, is raised."""
        failure: HeadwaterError
        try:
            self._do(job, files, into, may_go_on)
            return None
        except RangeMissingError as error:
            files.give_up(into)
            if error.path not in state.paths():
                return None  # it was replaced meanwhile
            failure = error
        except (SegmentError, UnreadableFileError) as error:
            failure = error
        except (CleaningStoppedError, HeadwaterError, OSError, MemoryError):
            raise
        except Exception as error:  # whatever it is: all other lanes do not depend on it
            failure = LaneFailedError(job.lane, error)
        files.give_up(into)
        self._failures.add(job, failure)
        return failure

    def _do(self, job: Job, files: Files, into: Exchange, may_go_on: Callable[[], bool]) -> None:
        """Add what becomes of a job's groups to `into`, at the latest when the files are flushed."""
        if job.emptied:
            for group in job.groups:
                part = nothing_of(group)
                files.add(part, Says.of_part(part, True), into)
            return
        stay = self._stay(job)
        for group in job.groups:
            if not may_go_on():
                raise CleaningStoppedError
            for part in left_of(self._log, group, stay):
                clean = job.clean or all(each.clean for each in part.replaced)
                says = Says.of_part(part, clean, job.deletions)
                if part.gone or len(part.replaced) > 1:
                    files.add(part, says, into)
                elif clean and says.of(part.replaced[0]) != part.replaced[0]:
                    into.add(says.of(part.replaced[0]), part.replaced)

    def _stay(self, job: Job) -> Stay:
        """Which records a job leaves."""
        if not job.keyed and not job.expired_below and job.oldest is None and not job.forgets:
            return None
        last = LastPositions.of(fetched(self._log, job.keyed, job.key), job.key) if job.keyed else None
        below = pa.scalar(job.expired_below, pa.binary())

        def stay(records: pa.RecordBatch, positions: Int64s) -> Bools:
            stays = np.ones(len(positions), bool)
            if last is not None:
                stays &= last.stay(keys_of(records, job.key), positions)
            if job.expired_below:
                stays &= to_numpy(pc.greater_equal(records.column("key"), below))
            if job.forgets:
                stays &= (positions >= job.forgets) | to_numpy(records.column("value").is_valid())
            if job.oldest is not None:
                stays &= to_numpy(records.column("_timestamp")) >= job.oldest
            return stays

        return stay


# Commits what a round of cleaning has come to.


def commit_cleaned(
    cleaned: Cleaned, log: Log, state: LogState, commit: Callable[[tuple[Listed, ...]], object]
) -> tuple[Listed, ...]:
    """Commit what still fits `state` by `commit`, and remove files that this leaves unlisted. Returns what it was.

    Raises what `commit` raises. Nothing is removed then: the commit may have been made all the same, as where only the
    sync of its directory failed. If it was not, its files are garbage of its generation.
    """
    committed: tuple[Listed, ...] = ()
    while not committed and (fitting := cleaned.fitting(state)):
        try:
            commit(fitting)
            committed = fitting
        except (CommitExistsError, SegmentsChangedError):
            state.refresh()  # another commit came first, and it may have changed what fits
    for path in cleaned.unlisted(committed):
        with suppress(OSError, HeadwaterError):  # it is garbage from now on
            log.remove(path)
    return committed


def clean_round(
    cleaner: Cleaner,
    log: Log,
    state: LogState,
    may_go_on: Callable[[], bool] = lambda: True,
    delay_ms: int = DELAY_MS,
) -> tuple[Cleaned, tuple[Listed, ...]]:
    """Do a round and commit it, for an application whose driver is not in this process; what was committed.

    Its driver may be running: whoever is first commits, and the other goes on. Replaced files stay for `delay_ms`.
    Raises what `Cleaner.round` raises, and FullyRefreshedError, GenerationError.
    """
    state.refresh()
    # Those of before the round, as the files have them in their names: a driver that claims the application meanwhile
    # takes the files for garbage, and then nothing may list them.
    generation, incarnation = state.generation, state.incarnation
    cleaned = cleaner.round(state, may_go_on)

    def commit(segments: tuple[Listed, ...]) -> None:
        state.commit(RewriteRecord(generation, time.time_ns() // 1_000_000, segments, incarnation, delay_ms))

    return cleaned, commit_cleaned(cleaned, log, state, commit)


# Cleans all of an application that does not run, until there is nothing more to do.


@dataclass(frozen=True)
class Sizes:
    """How much commits list: segments, and the bytes of their records."""

    segments: int
    size: int

    @classmethod
    def of(cls, state: LogState) -> Sizes:
        """Of an application."""
        listed = state.segments()
        return cls(len(listed), sum(segment.size for segment in listed))


@dataclass(frozen=True)
class CleanedApplication:
    """What the cleaning of an application has come to. `removed`: how many files have gone that nothing lists any more.
    `waiting`: how many of these stay until the delay is over. `damage`: what could not be read, and is left as it is.
    `held`: what stays for readers.
    """

    application: str
    before: Sizes
    after: Sizes
    removed: int = 0
    waiting: int = 0
    damage: tuple[HeadwaterError, ...] = ()
    held: tuple[HeldBack, ...] = ()


def clean_completely(
    log: Log,
    application: str,
    policies: Mapping[str, Policy],
    *,
    delay_ms: int = DELAY_MS,
    limits: Limits = LIMITS,
    topologies: Iterable[Topology] = (),
) -> CleanedApplication:
    """Do round after round, and remove what nothing lists. Replaced files stay for `delay_ms`.
    `topologies`: readers that count before they have committed anything, too.

    For an application that no driver works on; if one claims it meanwhile, GenerationError. Raises LogError, OSError
    and MachineError. What was committed by then stays.
    """
    state = LogState.load(log.commits(application))
    before = Sizes.of(state)
    # First: the next commit forgets those whose time is over.
    removed = _remove_replaced(log, state, _now())
    cleaner = Cleaner(log, policies, limits, topologies)
    while True:
        cleaned, committed = clean_round(cleaner, log, state, delay_ms=delay_ms)
        if not committed:
            break
    log.remove_leftovers()
    removed += _remove_replaced(log, state, _now())
    removed += collect_garbage(log, application, state)
    return CleanedApplication(
        application, before, Sizes.of(state), removed, len(state.retained.at(_now())), cleaned.damage, cleaned.held
    )


def _remove_replaced(log: Log, state: LogState, now: int) -> int:
    """Remove files that others have taken the place of, as their time is over. Returns how many were there."""
    over: Collection[str] = state.retained.expired(now) - state.paths()
    there = {file.path for file in log.files(state.application)} if over else ()
    for path in over:
        log.remove(path)
    return sum(path in there for path in over)


def _now() -> int:
    return time.time_ns() // 1_000_000
