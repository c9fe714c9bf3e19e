"""Finds where in a topic a reader begins: at the first record, after the last, at an offset, or at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..log.log import Log
from ..log.ranges import LogRange
from ..log.state import LogState


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
