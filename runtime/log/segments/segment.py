"""What a commit lists of a file of records, and the range that readers get of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ..ranges import LogRange


@dataclass(frozen=True)
class Batch:
    """A byte range of a segment file: one Arrow record batch of at most 16,384 rows of one partition.

    `start`, `length`: bytes. `min_timestamp`, `max_timestamp`: bounds of the records' timestamps, `min_order`,
    `max_order`: of the writer's stream time. `checksum`: crc32 of the bytes.
    """

    start: int
    length: int
    rows: int
    min_timestamp: int
    max_timestamp: int
    min_order: int
    max_order: int
    checksum: int = 0

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class ByteRange:
    """The part of a batch that a reader needs: its place, its number of rows, the crc32 of its bytes."""

    start: int
    length: int
    rows: int
    checksum: int


@dataclass(frozen=True)
class FileRange:
    """The content of a range's token: the place of its records. For `head` and `head_checksum` see `Segment`."""

    path: str
    head: int
    head_checksum: int | None
    batches: tuple[ByteRange, ...]

    @classmethod
    def of(cls, token: str) -> FileRange:
        """Decode the token of a range, see `Segment.range`."""
        head, checksum, batches, path = token.split(" ", 3)
        numbers = (map(int, batch.split(",")) for batch in batches.split(";") if batch)
        return cls(path, int(head), int(checksum) if checksum else None, tuple(ByteRange(*each) for each in numbers))


@dataclass(frozen=True)
class Segment:
    """What one writer appended to one partition of one topic in one epoch.

    `lane`: the partition number of the writing task (EXTERNAL_LANE for appends). `base_offset`: offset of its first
    record in the partition; `base_position`: of its first record in the lane (both given at commit; -1 before).
    `headers`: whether any record of the file has headers. `head`: bytes of the schema at the start of the file,
    `head_checksum`: their crc32 (None in logs that were begun before there was one). `span`: how many offsets and
    positions it takes up; None for as many as it has records.
    """

    topic: str
    partition: int
    lane: int
    path: str
    batches: tuple[Batch, ...]
    headers: bool = False
    base_offset: int = -1
    base_position: int = -1
    head: int = 0
    head_checksum: int | None = None
    span: int | None = None

    @cached_property
    def rows(self) -> int:
        """Number of records."""
        return sum(batch.rows for batch in self.batches)

    @property
    def end_offset(self) -> int:
        """The offset at which the partition's next segment begins."""
        return self.base_offset + (self.rows if self.span is None else self.span)

    @property
    def end_position(self) -> int:
        """The position at which the lane's next segment begins."""
        return self.base_position + (self.rows if self.span is None else self.span)

    @property
    def size(self) -> int:
        """Bytes of its records."""
        return sum(batch.length for batch in self.batches)

    def range(self) -> LogRange:
        """The range that readers get of it, once it is placed."""
        batches = ";".join([f"{each.start},{each.length},{each.rows},{each.checksum}" for each in self.batches])
        checksum = "" if self.head_checksum is None else self.head_checksum
        return LogRange(
            topic=self.topic,
            partition=self.partition,
            lane=self.lane,
            start=self.base_position,
            end=self.end_position,
            start_offset=self.base_offset,
            end_offset=self.end_offset,
            records=self.rows,
            size=self.size,
            min_order=min([each.min_order for each in self.batches], default=0),
            max_order=max([each.max_order for each in self.batches], default=0),
            token=f"{self.head} {checksum} {batches} {self.path}",
        )


def segment_path(application: str, topic: str, name: str) -> str:
    """The path of a segment file, relative to its log."""
    return f"segments/{application}/{topic}/{name}.seg"
