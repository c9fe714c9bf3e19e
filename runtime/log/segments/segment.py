"""Segments: what a commit lists of a file of records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ....errors import MachineError
from ..errors import OffsetRange, RangeMissingError, RecordsTooLargeError, SegmentError, UnreadableFileError
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
    """A batch as a reader needs it. `start`, `length`: bytes. `checksum`: crc32 of the bytes.

    `first`: the position of its first record; None if it follows the previous batch.
    """

    start: int
    length: int
    rows: int
    checksum: int
    first: int | None = None


@dataclass(frozen=True)
class FileRange:
    """The content of a range's token: the location of its records. `head`, `head_checksum`: see `Segment`."""

    path: str
    head: int
    head_checksum: int | None
    batches: tuple[ByteRange, ...]

    @classmethod
    def from_token(cls, token: str) -> FileRange:
        """Decode the token of a range, see `Segment.range`.

        `512 77 512,900,3,55;1412,640,2,56,9 segments/a/t/x.seg`: a schema of 512 bytes with the crc32 77; a batch at
        byte 512 with 900 bytes, 3 rows and the crc32 55, and another one, whose first record has the position 9.
        """
        head, checksum, batches, path = token.split(" ", 3)
        numbers = (map(int, batch.split(",")) for batch in batches.split(";") if batch)
        return cls(path, int(head), int(checksum) if checksum else None, tuple(ByteRange(*batch) for batch in numbers))

    def firsts(self, start: int) -> list[int]:
        """The position of each batch's first record, in a range that starts at position `start`.

        For the token of `from_token` and a start of 4: [4, 9]. Without the 9: [4, 7], as the first batch has 3 rows.
        """
        firsts, position = list[int](), start
        for batch in self.batches:
            firsts.append(position if batch.first is None else batch.first)
            position = firsts[-1] + batch.rows
        return firsts


@dataclass(frozen=True)
class Deletions:
    """The state of deletions in a changelog, in its first segment.

    `horizon`: the delete horizon. Some deletions before this position are dropped, with everything that they deleted.
    So a store at a lower position, other than 0, may have deleted rows. `known`: deletions before this position existed
    at `at` (ms), and were applied by their store: they are dropped next. 0 if none are to be dropped yet.
    """

    horizon: int = 0
    known: int = 0
    at: int = 0

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class Segment:
    """Records of one lane in one file: the output of one writer for one partition of a topic in one epoch, or the
    remaining records of several such segments.

    `lane`: the partition number of the writing task (EXTERNAL_LANE for appends). `base_offset`, `base_position`: of its
    first record in the partition, and in the lane (assigned at commit; -1 before). `headers`: whether any record of the
    file has headers. `head`: bytes of the schema at the start of the file, `head_checksum`: their crc32 (None in older
    logs). `span`: the number of its positions; None if equal to the number of records. `offset_span`: the number of its
    offsets; None if equal to that of positions. `firsts`: the position of each batch's first record, empty if batches
    follow one another. A segment without records needs no file: its `path` is empty. `clean`: no key occurs twice in
    it, or in an earlier clean segment of the lane. `epochs`: the number of epochs that wrote the segments it replaces.
    `tombstones`: the number of deletions in a clean segment of a changelog; None if not counted. `deletions`: in the
    first segment of a lane.
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
    offset_span: int | None = None
    firsts: tuple[int, ...] = ()
    clean: bool = False
    epochs: int = 1
    tombstones: int | None = None
    deletions: Deletions = Deletions()

    seldom: ClassVar = ("offset_span", "firsts", "clean", "epochs", "tombstones", "deletions")

    @cached_property
    def rows(self) -> int:
        """Number of records."""
        return sum(batch.rows for batch in self.batches)

    @property
    def end_offset(self) -> int:
        """The offset at which the partition's next segment begins."""
        if self.offset_span is not None:
            return self.base_offset + self.offset_span
        return self.base_offset + (self.rows if self.span is None else self.span)

    @property
    def end_position(self) -> int:
        """The position at which the lane's next segment begins."""
        return self.base_position + (self.rows if self.span is None else self.span)

    @property
    def size(self) -> int:
        """Size of its records in the file, bytes."""
        return sum(batch.length for batch in self.batches)

    @property
    def rewritten(self) -> bool:
        """Whether it has a form that versions without rewrites do not know."""
        return self.clean or self.epochs > 1 or bool(self.firsts) or self.offset_span is not None or not self.path

    def range(self) -> LogRange:
        """The range for readers, once the segment has offsets."""
        batches = ";".join(
            [
                f"{batch.start},{batch.length},{batch.rows},{batch.checksum}{first}"
                for batch, first in zip(self.batches, self._firsts(), strict=True)
            ]
        )
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
            min_order=min([batch.min_order for batch in self.batches], default=0),
            max_order=max([batch.max_order for batch in self.batches], default=0),
            token=f"{self.head} {checksum} {batches} {self.path}",
            epochs=self.epochs,
        )

    def _firsts(self) -> list[str]:
        return [f",{first}" for first in self.firsts] or [""] * len(self.batches)


def segment_path(application: str, topic: str, name: str) -> str:
    """The path of a segment file, relative to its log."""
    return f"segments/{application}/{topic}/{name}.seg"


# Errors of segment files name the records: the name of a file does not tell users what is lost.


@contextmanager
def records_named(within: LogRange, start: int, end: int, size: int | None = None) -> Iterator[None]:
    """Add the records between two positions of a range to errors of the block. `size`: bytes of the records in the log.

    If the file is missing, the error names all records from `start` to the end of the range.
    """
    try:
        yield
    except SegmentError as error:
        error.set_location(location_of(within, start, within.end if isinstance(error, RangeMissingError) else end))
        raise
    except MachineError as error:
        raise UnreadableFileError(location_of(within, start, end), error) from error
    except MemoryError as error:
        raise RecordsTooLargeError([location_of(within, start, end)], size, error) from error


def location_of(within: LogRange, start: int, end: int) -> OffsetRange:
    """The offsets of records between two positions. In a range with gaps they are bounds, else exact.

    A range of positions 10 to 20 and offsets 100 to 110: positions 12 to 15 have the offsets 102 to 105. With offsets
    100 to 130, they are among the offsets 102 to 125, as offsets grow at least as much as positions.
    """
    first = within.start_offset + start - within.start
    return OffsetRange(within.topic, within.partition, first, within.end_offset - (within.end - end))
