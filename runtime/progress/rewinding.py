"""Starts of readers in a topic, and moves of an application's positions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ...errors import HeadwaterError
from ...suggestions import guess
from ..ir.topology import raw_name, raw_topic
from ..kafka.sources import Clusters, token_of, topic_of
from ..log.commit.descriptions import TopologyDescription
from ..log.commit.external_records import EXTERNAL_LANE
from ..log.commit.records import RewindRecord
from ..log.errors import CommitExistsError
from ..log.log import Log
from ..log.placed_log import called
from ..log.ranges import LogRange
from ..log.state import LogState
from ..task_id import TaskKey
from .kafka_ends import KafkaEnds, resolved_topic
from .resets import CommittedMeanwhileError, locked


@dataclass(frozen=True)
class Whence:
    """Where a reader starts: at the first record, after the last one, at an offset, or at a time (ms since 1970); in
    Kafka also at the offsets of a consumer group.
    """

    kind: Literal["earliest", "latest", "offset", "time", "group"]
    number: int = 0
    group: str = ""


EARLIEST = Whence("earliest")
LATEST = Whence("latest")


def positions_at(log: Log, writer: LogState, topic: str, partition: int, whence: Whence) -> dict[int, int]:
    """Lane -> the position at which a reader of a partition starts. `writer`: the state of the topic's writer.

    For a time: at the first offset with that timestamp or a later one, whatever timestamps follow; after the last
    record if there is none (as Kafka's consumers do). New lanes start at 0. Raises LogError.
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


def positions_in_kafka(ends: KafkaEnds, topic: str, whence: Whence) -> list[int]:
    """The position at which a reader of each partition of a raw topic starts. Raises the errors of `KafkaEnds`.

    An offset is the same in all partitions. An offset before the first record becomes that of the first record.
    """
    partitions = range(len(ends.ends[topic]))
    match whence.kind:
        case "latest":
            return list(ends.ends[topic])
        case "time":
            return ends.since(topic, whence.number)
        case "group":
            return ends.of_group(topic, whence.group)
    first = 0 if whence.kind == "earliest" else whence.number
    return [max(first, ends.low(topic, partition)) for partition in partitions]


def records_from(log: Log, writer: LogState, topic: str, partition: int, positions: Mapping[int, int]) -> int:
    """The number of records of a partition after these positions. Raises LogError."""
    return sum(
        _records_of(log, within, positions.get(lane, 0))
        for lane in writer.lane_ends(topic, partition)
        for within in writer.lane_ranges(topic, partition, lane, positions.get(lane, 0))
    )


def _records_of(log: Log, within: LogRange, position: int) -> int:
    if position <= within.start:
        return within.records
    return sum(map(len, log.read(within, position, ["_timestamp"])))


def _from_offset(log: Log, writer: LogState, topic: str, partition: int, offset: int) -> dict[int, int]:
    positions = dict(writer.lane_ends(topic, partition))
    for lane in positions:
        for within in writer.lane_ranges(topic, partition, lane):
            position = _position_in(log, within, offset)
            if position is not None:
                positions[lane] = position
                break
    return positions


def _position_in(log: Log, within: LogRange, offset: int) -> int | None:
    """The position of the first record of a range at or after an offset; None if all are before it.

    A range with positions [10, 11, 14] and offsets [100, 105, 108] has the position 14 for the offset 106.
    """
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
    """The offset of the first record with a timestamp of `time` (ms) or later. `ranges`: by their first offsets.

    Ranges of several lanes may overlap, so ranges that start before the least offset so far are read too.
    """
    earliest: int | None = None
    for within in ranges:
        if earliest is not None and within.start_offset >= earliest:
            break
        first = next(_since(log, within, time), None)
        if first is not None and (earliest is None or first < earliest):
            earliest = first
    return earliest


def _since(log: Log, within: LogRange, time: int) -> Iterator[int]:
    for fetched in log.read(within, None, ["_timestamp"]):
        rows = np.flatnonzero(fetched.records.column("_timestamp").to_numpy(zero_copy_only=False) >= time)
        if len(rows):
            yield int(fetched.offsets[rows[0]])


# Moves of an application's positions in a topic, in one commit, with a plan of their effect first.
#
# The application reads records again, or skips some. Its stores, and those of all applications downstream, stay
# unchanged. So records that are read again count twice there, which users must allow.


class NotReadError(HeadwaterError):
    """An application has no position in a topic that could be moved."""

    exit_code = 2

    def __init__(self, application: str, topic: str, why: str, hint: str) -> None:
        super().__init__(f"{application} has no position in {topic} that can be moved: {why}", hint)
        self.application = application
        self.topic = topic


class OutOfRangeError(HeadwaterError):
    """A reader cannot be moved behind the last record. `end`: the offset after the last one."""

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
    """Records that are read again would count twice in stores. `stores`: (application, store)."""

    def __init__(
        self, application: str, records: int, stores: Sequence[tuple[str, str]], unknown: int = 0, start: str = ""
    ) -> None:
        """`unknown`: the number of further records that were never consumed. `start`: where a reset would start."""
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
    """The move in one partition. `positions`: the new ones, by lane. `unread`: records ahead of the reader now; `then`:
    after the move.

    `consumed`: all records that its task has consumed, not those before its start.
    """

    partition: int
    positions: Mapping[int, int]
    unread: int
    then: int
    consumed: int

    @property
    def more(self) -> int:
        """The number of records that are read in addition."""
        return max(0, self.then - self.unread)

    @property
    def again(self) -> int:
        """The greatest number of records that are read a second time."""
        return min(self.more, self.consumed)

    @property
    def skipped(self) -> int:
        """The number of skipped records."""
        return max(0, self.unread - self.then)


@dataclass(frozen=True)
class Rewind:
    """A planned move. `commits`: the number of the application's last commit at planning.

    `stores`: those that the topic's records reach, as (application, store); their rows stay. `readers`: the
    applications that read the output again. `kafka_id`: see `RewindRecord`. `repairs`: whether Kafka lacks the records
    at the present positions, so that the move is needed even if no record is read again or skipped.
    """

    application: str
    subtopology: str
    topic: str
    commits: int
    moves: tuple[Move, ...]
    stores: tuple[tuple[str, str], ...] = ()
    readers: tuple[str, ...] = ()
    kafka_id: str | None = None
    repairs: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether the move changes anything."""
        return bool(self.more or self.skipped or self.repairs)

    @property
    def more(self) -> int:
        """The number of records that are read in addition."""
        return sum(move.more for move in self.moves)

    @property
    def again(self) -> int:
        """The greatest number of records that are read a second time."""
        return sum(move.again for move in self.moves)

    @property
    def skipped(self) -> int:
        """The number of skipped records."""
        return sum(move.skipped for move in self.moves)


def plan_rewind(
    log: Log,
    application: str,
    topic: str,
    whence: Whence,
    partitions: Collection[int] = (),
    *,
    fed_by: str,
    keep_state: bool = False,
    kafka: Callable[[], Clusters] = dict,
) -> Rewind:
    """The effect of a move; nothing is changed. `partitions`: only these. `fed_by`: `<project>-seed`.

    `topic`: a source. The copy of a raw topic stands for the raw one. `kafka`: the clusters of raw topics, called only
    for these. Raises NotReadError, OutOfRangeError, RewoundStateError (not with `keep_state`), LogError, and errors of
    `KafkaOffsets`.
    """
    state = LogState.load(log.commits(application))
    topic = state.topology.raw_source(topic) or topic
    part, count, writer_name = _reader(state, topic)
    for partition in sorted(partitions):
        if partition >= count:
            raise NotReadError(
                application,
                f"partition {partition} of {topic}",
                f"the topic has {count} partition{'' if count == 1 else 's'}",
                "they count from 0",
            )
    chosen = sorted(partitions) or range(count)
    readers, stores = _reached(log, application, state.topology, part)
    if state.topology.topics[topic].kafka_id is not None:
        planned = _plan_in_kafka(state, part, topic, chosen, whence, kafka())
    else:
        writer = LogState.load(log.commits(called(log, writer_name)[-1] if writer_name else fed_by))
        moves = tuple(_move(log, state, writer, part, topic, partition, whence) for partition in chosen)
        planned = Rewind(application, part, topic, state.number, moves)
        if (token := _replaced_target(state, topic, kafka)) is not None:
            if len(moves) < count:
                why, hint = "its topic in Kafka was created again, so all positions count nothing", "omit --partition"
                raise NotReadError(application, f"some partitions of {topic}", why, hint)
            planned = replace(planned, kafka_id=token, repairs=True)
    planned = replace(planned, stores=tuple(stores), readers=tuple(readers))
    if planned.again and stores and not keep_state:
        starts = state.topology.subtopologies[part].starts
        start = next((start.start for start in starts if start.topic == topic), "")
        raise RewoundStateError(application, planned.again, stores, planned.more - planned.again, start)
    return planned


def _replaced_target(state: LogState, topic: str, kafka: Callable[[], Clusters]) -> str | None:
    """The token of the topic in Kafka to which a topic is written, if that was created again since the last start."""
    token = state.topology.targets.get(topic)
    was = None if token is None else topic_of(token)
    clusters = {} if was is None else kafka()
    if was is None or was.cluster not in clusters:
        return None
    now = replace(was, id=clusters[was.cluster].offsets([was.name])[was.name].id)
    return None if now == was else token_of(now)


def rewind(log: Log, state_dir: Path | None, planned: Rewind) -> None:
    """Commit a planned move. Any driver that still exists is fenced.

    `state_dir`: see `refresh_fully`. Raises LockError while the application runs here, CommittedMeanwhileError.
    """
    with locked(state_dir, [planned.application]):
        state = LogState.load(log.commits(planned.application))
        if state.number != planned.commits:
            raise CommittedMeanwhileError(planned.application)
        positions = {move.partition: move.positions for move in planned.moves}
        at = time.time_ns() // 1_000_000
        try:
            state.commit(
                RewindRecord(
                    state.generation + 1,
                    at,
                    planned.subtopology,
                    planned.topic,
                    positions,
                    state.incarnation,
                    planned.kafka_id,
                )
            )
        except CommitExistsError as error:
            raise CommittedMeanwhileError(planned.application) from error


def _reader(state: LogState, topic: str) -> tuple[str, int, str | None]:
    """The subtopology that reads a topic, the topic's partitions and its writer. Raises NotReadError."""
    described, application = state.topology, state.application
    used = described.topics.get(topic)
    part = next((name for name, source in described.subtopologies.items() if topic in source.sources), None)
    if used is not None and part is None and used.global_:
        why, hint = "a global table is always read as a whole", "`headwater reset` has the topology start again"
        raise NotReadError(application, topic, why, hint)
    if used is None or part is None:
        read = sorted({name for reading in described.subtopologies.values() for name in reading.sources})
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
    # Logs of early versions do not count records; assume as many as are ahead of the reader.
    consumed = 0 if task.stream_time < 0 else task.records or then
    return Move(partition, positions, unread, then, consumed)


def _plan_in_kafka(
    state: LogState, part: str, topic: str, partitions: Sequence[int], whence: Whence, clusters: Clusters
) -> Rewind:
    """The move in a raw topic. Offsets do not count records: there are as many at most.

    If the topic was created again, its records are others: none is read a second time.
    """
    used, application = state.topology.topics[topic], state.application
    raw = raw_name(topic)
    assert raw is not None
    source = resolved_topic(raw_topic(raw.name, raw.cluster), clusters)
    assert source.kafka is not None
    replaced = source.kafka.id != used.kafka_id
    if replaced and len(partitions) < used.partitions:
        why, hint = "it was created again in Kafka, so the positions in all partitions do", "omit --partition"
        raise NotReadError(application, f"some partitions of {topic}", why, hint)
    ends = KafkaEnds([source], clusters)
    ends.poll()
    starts, moves, repairs = positions_in_kafka(ends, topic, whence), list[Move](), replaced
    for partition in partitions:
        end, high = ends.end(topic, partition), ends.high(topic, partition)
        if whence.kind == "offset" and whence.number > high:
            raise OutOfRangeError(topic, partition, whence.number, high)
        task = state.tasks.last_commit(TaskKey(application, part, partition))
        position, start = task.positions.get(topic, {}).get(EXTERNAL_LANE, 0), starts[partition]
        repairs = repairs or not ends.low(topic, partition) <= position <= high
        unread = 0 if replaced else max(0, end - position)
        consumed = 0 if replaced else task.records
        moves.append(Move(partition, {EXTERNAL_LANE: start}, unread, max(0, end - start), consumed))
    return Rewind(application, part, topic, state.number, tuple(moves), kafka_id=source.kafka.id, repairs=repairs)


def _reached(
    log: Log, application: str, described: TopologyDescription, part: str
) -> tuple[list[str], list[tuple[str, str]]]:
    """The other applications, and the stores, that a subtopology's input reaches."""
    descriptions = {application: described}
    for name in log.applications():
        if name != application:
            descriptions[name] = LogState.load(log.commits(name)).topology
    reached = {(application, part)}
    while more := {node for node in _behind(descriptions, reached) if node not in reached}:
        reached |= more
    stores = {(owner, store) for owner, name in reached for store in descriptions[owner].subtopologies[name].stores}
    return sorted({owner for owner, _ in reached} - {application}), sorted(stores)


def _behind(
    descriptions: Mapping[str, TopologyDescription], reached: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The subtopologies that read the output of these."""
    written = {topic for owner, name in reached for topic in descriptions[owner].subtopologies[name].sinks}
    for owner, described in descriptions.items():
        for name, part in described.subtopologies.items():
            if written & set(part.sources):
                yield owner, name
