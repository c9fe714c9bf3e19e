"""What the tasks of `kafka-out` say to a mirror and hear from it. No client of Kafka is needed for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from ...errors import HeadwaterError
from ..records.arrays import Int64s

Positions = Mapping[int, int]
"""Lane -> position in the task's partition of its topic."""


@dataclass(frozen=True)
class Outgoing:
    """Records for Kafka. `keys`, `values`: binary, null for null keys and tombstones. `headers`: JSON, or None.

    `partitions`: of each record in Kafka. `timestamps`: ms.
    """

    keys: pa.BinaryArray
    values: pa.BinaryArray
    partitions: Int64s
    timestamps: Int64s
    headers: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.partitions)

    def take(self, index: Int64s) -> Outgoing:
        """The records at these indexes."""
        chosen = pa.array(index)
        return Outgoing(
            self.keys.take(chosen),
            self.values.take(chosen),
            self.partitions[index],
            self.timestamps[index],
            None if self.headers is None else self.headers.take(chosen),
        )


@dataclass(frozen=True)
class Standing:
    """How far Kafka has the records of a task, of a result.

    `positions`: empty if Kafka has none of its records, or does not know. `replaces`: the earlier result that Kafka has
    records of instead; empty if there is none.
    """

    positions: Positions = field(default_factory=dict)
    replaces: str = ""


class TransactionLostError(HeadwaterError):
    """Another producer has ended the transaction: `Mirror.standing` says how far Kafka is."""


class OtherMirrorError(HeadwaterError):
    """Kafka has the position of another log: `group` has it."""

    def __init__(self, topic: str, group: str) -> None:
        super().__init__(
            f"records of {topic} in Kafka were written from another log: its position is in the consumer group {group}",
            "give each target another `prefix`, or write to another topic; if the other log is gone for good, "
            "run kafka-out with --full-refresh: all records follow those that are there",
        )
        self.group = group


class ResultReplacedError(HeadwaterError):
    """A task that works on an old result: another one is in the log by now. Nothing was written."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the result in {topic} was replaced by a rebuilt one while this task was writing it to Kafka",
            "run again: the records of the new one are written then",
        )


class ResultNotWholeError(HeadwaterError):
    """A result cannot be compared with what Kafka has, as the task has not taken all of it."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"a partition of {topic} has more records than a task can take at once: what differs in Kafka is unknown",
            f"give executors more memory; or write `recomputed: append` under `kafka` of {topic}, or another `topic`",
        )


class RebuiltResultError(HeadwaterError):
    """Kafka has records of an earlier result, and no policy says what becomes of them."""

    def __init__(self, topic: str, target: str) -> None:
        super().__init__(
            f"{target} in Kafka has records of an earlier result in {topic}, which was rebuilt since",
            f"write `recomputed: append` under `kafka` of {topic} (all records follow), or `changes` (what differs is "
            "written), or another `topic` there",
        )


class PositionMovedError(HeadwaterError):
    """The position in Kafka is that of an earlier result, although the present one was being written."""

    def __init__(self, topic: str, target: str) -> None:
        super().__init__(
            f"the position of {topic} in Kafka was moved by somebody else: it is that of an earlier result",
            f"do not reset the consumer groups of kafka-out; to write all of {topic} to {target} again, run kafka-out "
            "with --full-refresh",
        )
