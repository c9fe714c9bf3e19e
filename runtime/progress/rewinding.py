"""Reading elsewhere."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ...errors import HeadwaterError
from ...suggestions import guess
from ..log.commit.descriptions import TopologyDescription
from ..log.commit.records import RewindRecord
from ..log.errors import CommitExistsError
from ..log.log import Log
from ..log.placed_log import called
from ..log.ranges import LogRange
from ..log.state import LogState
from ..task_id import TaskKey
from .resets import CommittedMeanwhileError, held

# Finds where in a topic a reader begins: at the first record, after the last, at an offset, or at a time.


@dataclass(frozen=True)
class Whence:
    """`number`: the offset, or the time in ms since 1970."""

    kind: Literal["earliest", "latest", "offset", "time"]
    number: int = 0


EARLIEST = Whence("earliest")
LATEST = Whence("latest")


def positions_at(log: Log, writer: LogState, topic: str, partition: int, whence: Whence) -> dict[int, int]:
    """Lane -> the position at which a reader of a partition begins. `writer`: the state of what writes the topic.

    At a time: from the first record with that timestamp or a later one on, by offset, whatever times come after it. It
    is after the last record where there is no such record (as Kafka's consumers do). Lanes that are not there yet begin
    at 0. Raises LogError.
    """
    ends = dict(writer.lane_ends(topic, partition))
    match whence.kind:
        case "latest":
            return ends
        case "earliest":
            return dict.fromkeys(ends, 0)
        case "offset":
            return _from_offset(log, writer, topic, partition, whence.number)
    first = _first_since(log, writer.ranges_since(topic, partition, whence.number), whence.number)
    return ends if first is None else _from_offset(log, writer, topic, partition, first)


def records_from(log: Log, writer: LogState, topic: str, partition: int, positions: Mapping[int, int]) -> int:
    """How many records of a partition a reader at these positions has before it. Raises LogError."""
    return sum(
        _records_of(log, each, positions.get(lane, 0))
        for lane in writer.lane_ends(topic, partition)
        for each in writer.lane_ranges(topic, partition, lane, positions.get(lane, 0))
    )


def _records_of(log: Log, within: LogRange, position: int) -> int:
    if position <= within.start:
        return within.records
    return sum(map(len, log.read(within, position, ["_timestamp"])))


def _from_offset(log: Log, writer: LogState, topic: str, partition: int, offset: int) -> dict[int, int]:
    found = dict(writer.lane_ends(topic, partition))
    for lane in found:
        for each in writer.lane_ranges(topic, partition, lane):
            position = _position_in(log, each, offset)
            if position is not None:
                found[lane] = position
                break
    return found


def _position_in(log: Log, within: LogRange, offset: int) -> int | None:
    """The position of the first record of a range from an offset on; None if all are before it."""
    if within.end_offset <= offset:
        return None
    if within.start_offset >= offset:
        return within.start
    for fetched in log.read(within, within.position_of(offset), ["_timestamp"]):
        row = int(np.searchsorted(fetched.offsets, offset))
        if row < len(fetched):
            return int(fetched.positions[row])
    return None


def _first_since(log: Log, ranges: Iterable[LogRange], time: int) -> int | None:
    """The offset of the first record with a timestamp of `time` or later. `ranges`: by their first offsets."""
    found: int | None = None
    for within in ranges:
        if found is not None and within.start_offset >= found:
            break
        first = next(_since(log, within, time), None)
        if first is not None and (found is None or first < found):
            found = first
    return found


def _since(log: Log, within: LogRange, time: int) -> Iterator[int]:
    for fetched in log.read(within, None, ["_timestamp"]):
        rows = np.flatnonzero(fetched.records.column("_timestamp").to_numpy(zero_copy_only=False) >= time)
        if len(rows):
            yield int(fetched.offsets[rows[0]])


# Moves an application's position in a topic, in one commit: what that comes to is told first.
#
# An application reads records again, or passes over some. What its stores hold, and those of all that read what it
# writes, stays as it is. So records that are read again count twice there, which has to be asked for.


class NotReadError(HeadwaterError):
    """An application has no position in a topic that could be moved: `application`, `topic`."""

    exit_code = 2

    def __init__(self, application: str, topic: str, why: str, hint: str) -> None:
        super().__init__(f"{application} has no position in {topic} that can be moved: {why}", hint)
        self.application = application
        self.topic = topic


class OutOfRangeError(HeadwaterError):
    """A reader cannot be moved behind the last record: `topic`, `partition`, `end`: its last offset and one more."""

    exit_code = 2

    def __init__(self, topic: str, partition: int, offset: int, end: int) -> None:
        super().__init__(
            f"partition {partition} of {topic} ends at offset {end}, before {offset}",
            "`latest` is the end; `--partition` limits it to some partitions",
        )
        self.topic = topic
        self.partition = partition
        self.end = end


class RewoundStateError(HeadwaterError):
    """Records that are read again would count twice in stores: `stores`, as (application, store)."""

    def __init__(
        self, application: str, records: int, stores: Sequence[tuple[str, str]], unknown: int = 0, start: str = ""
    ) -> None:
        """`unknown`: how many more would be read that were never consumed. `start`: where a reset would begin."""
        names = ", ".join(f"{store} of {owner}" for owner, store in stores)
        topology = application.partition("-")[2]
        again = "1 record" if records == 1 else f"{records:,} records"
        more = f", and {unknown:,} that it has never read" if unknown else ""
        super().__init__(
            f"{application} would read {again} again, which stores have already: {names}{more}",
            f"`headwater reset '{topology}+'` starts it again{f' at its `start` ({start})' if start else ''}, with its "
            "stores and its readers; with --keep-state the stores stay as they are, and what is read again counts once "
            "more",
        )
        self.application = application
        self.records = records
        self.stores = tuple(stores)


@dataclass(frozen=True)
class Move:
    """One partition. `positions`: by lane, from now on. `unread`: records before the reader as it is; `then`: after.

    `consumed`: how many its task has consumed at all. A reader that began behind the first record never had the others.
    """

    partition: int
    positions: Mapping[int, int]
    unread: int
    then: int
    consumed: int

    @property
    def more(self) -> int:
        """How many more records are read than would be."""
        return max(0, self.then - self.unread)

    @property
    def again(self) -> int:
        """How many records are read a second time, at most."""
        return min(self.more, self.consumed)

    @property
    def skipped(self) -> int:
        """How many are passed over."""
        return max(0, self.unread - self.then)


@dataclass(frozen=True)
class Rewind:
    """What is moved. `commits`: the number of the application's last commit, which this was planned on.

    `stores`: those that the topic's records reach, as (application, store); their rows stay. `readers`: the
    applications that read what is written again.
    """

    application: str
    subtopology: str
    topic: str
    commits: int
    moves: tuple[Move, ...]
    stores: tuple[tuple[str, str], ...] = ()
    readers: tuple[str, ...] = ()

    @property
    def more(self) -> int:
        """Records that are read now, and would not be."""
        return sum(each.more for each in self.moves)

    @property
    def again(self) -> int:
        """Records that are read a second time, at most."""
        return sum(each.again for each in self.moves)

    @property
    def skipped(self) -> int:
        """Records that are passed over."""
        return sum(each.skipped for each in self.moves)


def plan_rewind(
    log: Log,
    application: str,
    topic: str,
    whence: Whence,
    partitions: Collection[int] = (),
    *,
    fed_by: str,
    keep_state: bool = False,
) -> Rewind:
    """What moving a reader comes to; nothing is changed. `partitions`: only these. `fed_by`: `<project>-seed`.

    Raises NotReadError, OutOfRangeError, RewoundStateError (not with `keep_state`), LogError.
    """
    state = LogState.load(log.commits(application))
    part, count, writer_name = _reader(state, topic)
    writer = LogState.load(log.commits(called(log, writer_name)[-1] if writer_name else fed_by))
    for each in sorted(partitions):
        if each >= count:
            raise NotReadError(
                application,
                f"partition {each} of {topic}",
                f"the topic has {count} partition{'' if count == 1 else 's'}",
                "they count from 0",
            )
    chosen = sorted(partitions) or range(count)
    moves = tuple(_move(log, state, writer, part, topic, each, whence) for each in chosen)
    readers, stores = _reached(log, application, state.topology, part)
    found = Rewind(application, part, topic, state.number, moves, tuple(stores), tuple(readers))
    if found.again and stores and not keep_state:
        start = next((each.start for each in state.topology.subtopologies[part].starts if each.topic == topic), "")
        raise RewoundStateError(application, found.again, stores, found.more - found.again, start)
    return found


def rewind(log: Log, state_dir: Path | None, planned: Rewind) -> None:
    """Do what was planned, in one commit. A driver that may still be there is fenced.

    `state_dir`: see `refresh_fully`. Raises LockError while the application runs here, CommittedMeanwhileError.
    """
    with held(state_dir, [planned.application]):
        state = LogState.load(log.commits(planned.application))
        if state.number != planned.commits:
            raise CommittedMeanwhileError(planned.application)
        positions = {move.partition: move.positions for move in planned.moves}
        at = time.time_ns() // 1_000_000
        try:
            state.commit(
                RewindRecord(state.generation + 1, at, planned.subtopology, planned.topic, positions, state.incarnation)
            )
        except CommitExistsError as error:
            raise CommittedMeanwhileError(planned.application) from error


def _reader(state: LogState, topic: str) -> tuple[str, int, str | None]:
    """The subtopology that reads a topic, the topic's partitions and its writer. Raises NotReadError."""
    described, application = state.topology, state.application
    used = described.topics.get(topic)
    part = next((name for name, each in described.subtopologies.items() if topic in each.sources), None)
    if used is not None and part is None and used.global_:
        why, hint = "a global table is always read as a whole", "`headwater reset` has the topology start again"
        raise NotReadError(application, topic, why, hint)
    if used is None or part is None:
        read = sorted({name for each in described.subtopologies.values() for name in each.sources})
        all_of_them = f"it reads {', '.join(read) or 'nothing yet'}"
        raise NotReadError(application, topic, "it does not read it", guess(topic, read, all_of_them))
    if used.writer == application:
        why, hint = "it writes it itself", "move it in the topic that the flow begins with"
        raise NotReadError(application, topic, why, hint)
    return part, used.partitions, used.writer


def _move(log: Log, state: LogState, writer: LogState, part: str, topic: str, partition: int, whence: Whence) -> Move:
    end = writer.end(topic, partition)
    if whence.kind == "offset" and whence.number > end:
        raise OutOfRangeError(topic, partition, whence.number, end)
    positions = positions_at(log, writer, topic, partition, whence)
    task = state.tasks.last_commit(TaskKey(state.application, part, partition))
    unread = records_from(log, writer, topic, partition, task.positions.get(topic, {}))
    then = records_from(log, writer, topic, partition, positions)
    # Logs of early versions do not count records; then as many as are before the reader.
    consumed = 0 if task.stream_time < 0 else task.records or then
    return Move(partition, positions, unread, then, consumed)


def _reached(
    log: Log, application: str, described: TopologyDescription, part: str
) -> tuple[list[str], list[tuple[str, str]]]:
    """The other applications, and the stores, that records reach which a subtopology reads."""
    descriptions = {application: described}
    for each in log.applications():
        if each != application:
            descriptions[each] = LogState.load(log.commits(each)).topology
    reached = {(application, part)}
    while more := {each for each in _behind(descriptions, reached) if each not in reached}:
        reached |= more
    stores = {(owner, store) for owner, name in reached for store in descriptions[owner].subtopologies[name].stores}
    return sorted({owner for owner, _ in reached} - {application}), sorted(stores)


def _behind(
    descriptions: Mapping[str, TopologyDescription], reached: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The subtopologies that read what these write."""
    written = {topic for owner, name in reached for topic in descriptions[owner].subtopologies[name].sinks}
    for owner, described in descriptions.items():
        for name, each in described.subtopologies.items():
            if written & set(each.sources):
                yield owner, name
