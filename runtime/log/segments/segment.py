"""A segment file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ....errors import MachineError
from ..errors import RangeMissingError, RecordsPlace, RecordsTooLargeError, SegmentError, UnreadableFileError
from ..ranges import LogRange

# What a commit lists of a file of records, and the range that readers get of it.


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
    """The part of a batch that a reader needs: its place, its number of rows, the crc32 of its bytes, the position of
    its first record (None: the one after the batch before).
    """

    start: int
    length: int
    rows: int
    checksum: int
    first: int | None = None


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

    def firsts(self, start: int) -> list[int]:
        """The position of each batch's first record, in a range that starts at `start`."""
        found, position = list[int](), start
        for each in self.batches:
            found.append(position if each.first is None else each.first)
            position = found[-1] + each.rows
        return found


@dataclass(frozen=True)
class Deletions:
    """What has become of the deletions in the changelog whose first segment says this.

    `horizon`: of those before this position some are dropped, and everything that they have deleted. So a store that
    stands before it, and not at 0, may have rows that are deleted. `known`: those before this position were there at
    `at` (ms), and applied by their store: they go next. 0: none go yet.
    """

    horizon: int = 0
    known: int = 0
    at: int = 0

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class Segment:
    """Records of one lane, in one file: what one writer appended to one partition of one topic in one epoch, or what is
    left of several such segments.

    `lane`: the partition number of the writing task (EXTERNAL_LANE for appends). `base_offset`: offset of its first
    record in the partition; `base_position`: of its first record in the lane (both given at commit; -1 before).
    `headers`: whether any record of the file has headers. `head`: bytes of the schema at the start of the file,
    `head_checksum`: their crc32 (None in logs that were begun before there was one). `span`: how many positions it
    takes up; None for as many as it has records. `offset_span`: how many offsets, None for as many as positions.
    `firsts`: the position of each batch's first record, empty where they follow one another. A segment without records
    needs no file: its `path` is then empty. `clean`: no key is in it twice, or in an earlier clean segment of the lane.
    `epochs`: how many epochs have written what it takes the place of. `tombstones`: how many of its records delete, in
    a clean segment of a changelog; None where nobody has counted. `deletions`: of a lane's first segment.
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
        """Bytes of its records."""
        return sum(batch.length for batch in self.batches)

    @property
    def rewritten(self) -> bool:
        """Whether it is of a form that versions which only append do not know."""
        return self.clean or self.epochs > 1 or bool(self.firsts) or self.offset_span is not None or not self.path

    def range(self) -> LogRange:
        """The range that readers get of it, once it is placed."""
        batches = ";".join(
            [
                f"{each.start},{each.length},{each.rows},{each.checksum}{first}"
                for each, first in zip(self.batches, self._firsts(), strict=True)
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
            min_order=min([each.min_order for each in self.batches], default=0),
            max_order=max([each.max_order for each in self.batches], default=0),
            token=f"{self.head} {checksum} {batches} {self.path}",
            epochs=self.epochs,
        )

    def _firsts(self) -> list[str]:
        return [f",{first}" for first in self.firsts] or [""] * len(self.batches)


def segment_path(application: str, topic: str, name: str) -> str:
    """The path of a segment file, relative to its log."""
    return f"segments/{application}/{topic}/{name}.seg"


# Says of which records an error of a segment file is: the file's name does not tell a user what is lost.


@contextmanager
def records_named(within: LogRange, start: int, end: int, size: int | None = None) -> Iterator[None]:
    """Have an error that is raised while records of a range are read name them: those between these positions.

    Where the file is missing, these and all that follow in the range. `size`: the bytes that they take in the log.
    """
    try:
        yield
    except SegmentError as error:
        error.tell(_place(within, start, within.end if isinstance(error, RangeMissingError) else end))
        raise
    except MachineError as error:
        raise UnreadableFileError(_place(within, start, end), error) from error
    except MemoryError as error:
        raise RecordsTooLargeError([_place(within, start, end)], size, error) from error


def _place(within: LogRange, start: int, end: int) -> RecordsPlace:
    """Offsets grow as positions do, or by more. So in a range with gaps these are bounds, else they are exact."""
    first = within.start_offset + start - within.start
    return RecordsPlace(within.topic, within.partition, first, within.end_offset - (within.end - end))
