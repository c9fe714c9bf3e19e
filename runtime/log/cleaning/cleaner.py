"""Rounds of cleaning of an application's topics."""

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
from ...timed_parts import wall_ms
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
    Marks,
    Stay,
    empty_part,
    fetched,
    keys_of,
    remaining,
)
from .deletions import Policy
from .jobs import Failures, Job, LaneFailedError, jobs
from .readers import HeldBack, Lanes, Waiting, declared_readers

# One round of cleaning of an application: due segments are read, and their remaining records are written. Nothing is
# visible before somebody commits the result, `Cleaned`.

ROUND_BYTES = 256 << 20
"""A round starts no further lane after this number of bytes: the next round continues."""


class CleaningStoppedError(Exception):
    """The round was stopped without a result."""


@dataclass(frozen=True)
class Cleaned:
    """The result of a round. `exchanges`: replacements of segments; each is committed as a whole or not at all.

    `files`: written for them. `read`: number of segments that were read. `more`: whether more work is due. `damage`:
    errors of unreadable segments, which are left unchanged. `held`: records that are kept for readers.
    """

    exchanges: tuple[Exchange, ...] = ()
    files: tuple[str, ...] = ()
    read: int = 0
    more: bool = False
    damage: tuple[HeadwaterError, ...] = ()
    held: tuple[HeldBack, ...] = ()

    def fitting(self, state: LogState) -> tuple[Segment, ...]:
        """The new segments of exchanges with segments that were not replaced since they were read."""
        return tuple(
            segment
            for exchange in self.exchanges
            if state.fits(exchange.new, exchange.replaced)
            for segment in exchange.new
        )

    def unlisted(self, committed: Sequence[Segment]) -> tuple[str, ...]:
        """Files that are superfluous if only these segments were committed."""
        listed = {segment.path for segment in committed}
        return tuple(path for path in self.files if path not in listed)


class Cleaner:
    """Cleans one application's topics. Used by one thread at a time, any thread.

    `policies`: by topic; a topic without one is only merged. `topologies`: those that run or are about to run; they,
    and readers named by their topics, count before their first commit. `seconds`: a monotonic clock. `now`: the time,
    ms.
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
        """Do the due work, until `may_go_on` returns False.

        Raises CleaningStoppedError, LogError, OSError and MachineError; written files are removed then.
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
        for lane, policy in self._lanes.all(state):
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
                error = self._failures.error_of(job)
                if error is None:
                    exchange = Exchange()
                    error = self._tried(job, state, files, exchange, may_go_on)
                    done.append(exchange)
                if error is None:
                    # Unreadable segments do not count, so later lanes have their turn.
                    size += job.size
                    count += sum(len(group) for group in job.groups)
                else:
                    damage.append(error)
        files.flush()
        exchanges = tuple(exchange for exchange in done if exchange.new and not exchange.failed)
        return Cleaned(exchanges, files.written, count, more, tuple(dict.fromkeys(damage)), waiting.held())

    def _tried(
        self, job: Job, state: LogState, files: Files, into: Exchange, may_go_on: Callable[[], bool]
    ) -> HeadwaterError | None:
        """Do a job. Returns an error of this job alone; errors that affect all jobs are raised."""
        failure: HeadwaterError
        try:
            self._do(job, files, into, may_go_on)
            return None
        except RangeMissingError as error:
            files.drop(into)
            if error.path not in state.paths():
                return None  # it was replaced meanwhile
            failure = error
        except (SegmentError, UnreadableFileError) as error:
            failure = error
        except (CleaningStoppedError, HeadwaterError, OSError, MemoryError):
            raise
        except Exception as error:  # an unexpected error of one lane does not stop the others
            failure = LaneFailedError(job.lane, error)
        files.drop(into)
        self._failures.add(job, failure)
        return failure

    def _do(self, job: Job, files: Files, into: Exchange, may_go_on: Callable[[], bool]) -> None:
        """Add the replacements of a job's groups to `into`, at the latest when the files are flushed."""
        if job.emptied:
            for group in job.groups:
                part = empty_part(group)
                files.add(part, Marks.of_part(part, True), into)
            return
        stay = self._stay(job)
        for group in job.groups:
            if not may_go_on():
                raise CleaningStoppedError
            for part in remaining(self._log, group, stay):
                clean = job.clean or all(segment.clean for segment in part.replaced)
                marks = Marks.of_part(part, clean, job.deletions)
                if part.gone or len(part.replaced) > 1:
                    files.add(part, marks, into)
                elif clean and marks.apply(part.replaced[0]) != part.replaced[0]:
                    into.add(marks.apply(part.replaced[0]), part.replaced)

    def _stay(self, job: Job) -> Stay:
        """The mask of records that a job keeps; None for all."""
        if not job.keyed and not job.expired_below and job.oldest is None and not job.forgets:
            return None
        last = LastPositions.of_records(fetched(self._log, job.keyed, job.key), job.key) if job.keyed else None
        below = pa.scalar(job.expired_below, pa.binary())

        def stay(records: pa.RecordBatch, positions: Int64s) -> Bools:
            stays = np.ones(len(positions), bool)
            if last is not None:
                stays &= last.is_last(keys_of(records, job.key), positions)
            if job.expired_below:
                stays &= to_numpy(pc.greater_equal(records.column("key"), below))
            if job.forgets:
                stays &= (positions >= job.forgets) | to_numpy(records.column("value").is_valid())
            if job.oldest is not None:
                stays &= to_numpy(records.column("_timestamp")) >= job.oldest
            return stays

        return stay


# Commit of a round's result.


def commit_cleaned(
    cleaned: Cleaned, log: Log, state: LogState, commit: Callable[[tuple[Listed, ...]], object]
) -> tuple[Listed, ...]:
    """Commit the exchanges that still fit `state`, and remove files that remain unlisted.

    Returns the committed segments. Raises errors of `commit`. No file is removed then, as the commit may exist, for
    example if only the sync of its directory failed. If it does not, its files are garbage of its generation.
    """
    committed: tuple[Listed, ...] = ()
    while not committed and (fitting := cleaned.fitting(state)):
        try:
            commit(fitting)
            committed = fitting
        except (CommitExistsError, SegmentsChangedError):
            state.refresh()  # another commit was first, and may have changed what fits
    for path in cleaned.unlisted(committed):
        with suppress(OSError, HeadwaterError):  # garbage collection removes it later
            log.remove(path)
    return committed


def clean_round(
    cleaner: Cleaner,
    log: Log,
    state: LogState,
    may_go_on: Callable[[], bool] = lambda: True,
    delay_ms: int = DELAY_MS,
) -> tuple[Cleaned, tuple[Listed, ...]]:
    """Do a round and commit it, for an application without a driver in this process.

    Returns the committed segments too. Its driver may be running elsewhere: one of both commits first, and the other
    tries again. Replaced files stay for `delay_ms`. Raises errors of `Cleaner.round`, FullyRefreshedError,
    GenerationError.
    """
    state.refresh()
    # As before the round, and in the names of its files: a driver that claims the application meanwhile treats the
    # files as garbage, and then no commit may list them.
    generation, incarnation = state.generation, state.incarnation
    cleaned = cleaner.round(state, may_go_on)

    def commit(segments: tuple[Listed, ...]) -> None:
        state.commit(RewriteRecord(generation, wall_ms(), segments, incarnation, delay_ms))

    return cleaned, commit_cleaned(cleaned, log, state, commit)


# Complete cleaning of an application that is not running.


@dataclass(frozen=True)
class Sizes:
    """The number of segments that commits list, and the bytes of their records."""

    segments: int
    size: int

    @classmethod
    def of(cls, state: LogState) -> Sizes:
        """The sizes of an application."""
        listed = state.segments()
        return cls(len(listed), sum(segment.size for segment in listed))


@dataclass(frozen=True)
class CleanedApplication:
    """The result of a complete cleaning. `removed`, `waiting`: numbers of files.

    `waiting`: replaced files that stay until their delay is over. `damage`: errors of unreadable segments, which are
    left unchanged. `held`: records that are kept for readers.
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
    """Do rounds until nothing is due, and remove unlisted files. Replaced files stay for `delay_ms`.

    `topologies`: readers that count before their first commit. For an application without a running driver; if one
    claims it meanwhile, raises GenerationError. Raises LogError, OSError and MachineError. Earlier commits stay.
    """
    state = LogState.load(log.commits(application))
    before = Sizes.of(state)
    # First, as the next commit drops expired entries.
    removed = _remove_replaced(log, state, wall_ms())
    cleaner = Cleaner(log, policies, limits, topologies)
    while True:
        cleaned, committed = clean_round(cleaner, log, state, delay_ms=delay_ms)
        if not committed:
            break
    log.remove_leftovers()
    removed += _remove_replaced(log, state, wall_ms())
    removed += collect_garbage(log, application, state)
    return CleanedApplication(
        application, before, Sizes.of(state), removed, len(state.retained.at(wall_ms())), cleaned.damage, cleaned.held
    )


def _remove_replaced(log: Log, state: LogState, now: int) -> int:
    """Remove replaced files with a delay that is over. Returns the number of existing ones."""
    expired: Collection[str] = state.retained.expired(now) - state.paths()
    existing = {file.path for file in log.files(state.application)} if expired else ()
    for path in expired:
        log.remove(path)
    return sum(path in existing for path in expired)
