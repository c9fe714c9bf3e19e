"""Compaction and merges of segments."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import Bools, Int64s, to_numpy
from ...records.keys import encode_keys
from ...records.schema import HEADERS, as_schema, schema_of_both
from ..log import Log, rewritten_file_name
from ..ranges import Fetched, RangeReader, Rewritten
from ..segments.segment import Deletions, Segment

# The last record of each key in a lane.

_AT_ONCE = 1_000_000
"""The number of keys to gather before duplicates are removed."""


@dataclass(frozen=True)
class LastPositions:
    """Distinct keys, and the position of the last record of each."""

    keys: pa.Array
    positions: Int64s

    @classmethod
    def of_records(cls, pieces: Iterable[Fetched], key: Sequence[str]) -> LastPositions:
        """From the keys of records; null keys are ignored. `key`: the key columns, which the records have."""
        empty = cls(pa.array([], pa.binary()), np.empty(0, np.int64))
        waiting, count = [empty], 0
        for piece in pieces:
            waiting.append(cls(keys_of(piece.records, key), piece.positions))
            count += len(piece)
            if count >= _AT_ONCE:
                waiting, count = [cls._merged(waiting)], 0
        return cls._merged(waiting)

    @classmethod
    def _merged(cls, parts: Sequence[LastPositions]) -> LastPositions:
        """The last positions of several parts.

        keys, of all parts         ["a", "b", null, "a"], positions [3, 4, 5, 9]
        indices, dictionary        [0, 1, null, 0], ["a", "b"]
        valid                      [True, True, False, True]
        last, maximum by index     [9, 4]
        """
        keys = pc.dictionary_encode(pa.concat_arrays([part.keys for part in parts]))
        positions = np.concatenate([part.positions for part in parts])
        valid = to_numpy(keys.is_valid())
        last = np.full(len(keys.dictionary), -1, np.int64)
        np.maximum.at(last, to_numpy(keys.indices.drop_null()), positions[valid])
        return cls(keys.dictionary, last)

    def is_last(self, keys: pa.Array, positions: Int64s) -> Bools:
        """A mask of the records that are the last of their keys; True for null and unknown keys.

        last positions          "a": 9, "b": 4
        keys, positions         ["a", "c", "b"], [3, 4, 4]
        indices, known          [0, null, 1], [True, False, True]
        result                  [False, True, True]
        """
        indices = pc.index_in(keys, value_set=self.keys)
        known = to_numpy(indices.is_valid())
        last = np.ones(len(keys), bool)
        last[known] = positions[known] >= self.positions[to_numpy(indices.drop_null())]
        return last


def keys_of(records: pa.RecordBatch | pa.Table, key: Sequence[str]) -> pa.Array:
    """The encoded keys of records. A changelog has a column of them."""
    columns = [records.column(name) for name in key]
    plain = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    if len(plain) == 1 and pa.types.is_binary(plain[0].type) and key[0] == "key":
        return plain[0]
    return encode_keys(plain)


# Which adjacent segments of a lane are merged, to keep their number small.
#
# Source: the size-tiered ("universal") compaction of log-structured stores such as RocksDB. From a segment backwards,
# each older one is included that is not larger than the sum of all so far. So a record's segment at least doubles each
# time it is written again, and a lane of n bytes has about log n segments, larger ones first, up to their full size.

Group = tuple[Segment, ...]
"""Adjacent segments of a lane that become one."""


@dataclass(frozen=True)
class Limits:
    """`fan_out`: the least number of segments for a merge. `size`, `rows`: the most bytes and records of a merged
    segment, which is in memory uncompressed while it is written.
    """

    fan_out: int = 8
    size: int = 16 << 20
    rows: int = 1_000_000

    def exceeded(self, size: int, rows: int) -> bool:
        """Whether a segment would be too large."""
        return size > self.size or rows > self.rows


LIMITS = Limits()


def merges(segments: Sequence[Segment], limits: Limits = LIMITS) -> Iterator[Group]:
    """Groups of adjacent segments to merge, newest first; none if there are few segments of each size.

    With a fan-out of 3 and the sizes [90, 8, 4, 2, 2]: from the last 2 backwards, 2, 4 and 8 are included, as none is
    larger than the sum so far (2, 4, 8, then 16), and 90 is not. So the last four are merged.
    """
    end = len(segments)
    while end > 0:
        first, full = _first(segments, end, limits)
        count = end - first
        if count >= limits.fan_out or (full and count > 1):
            yield tuple(segments[first:end])
            end = first
        else:
            end -= 1


def packed(segments: Sequence[Segment], limits: Limits = LIMITS) -> Iterator[Group]:
    """All segments, in groups of adjacent ones within the limits of a segment."""
    first, size, rows = 0, 0, 0
    for number, segment in enumerate(segments):
        size, rows = size + segment.size, rows + segment.rows
        if number > first and limits.exceeded(size, rows):
            yield tuple(segments[first:number])
            first, size, rows = number, segment.size, segment.rows
    if segments:
        yield tuple(segments[first:])


def _first(segments: Sequence[Segment], end: int, limits: Limits) -> tuple[int, bool]:
    """The start of the group that ends before `end`, and whether it has its full size."""
    first = end - 1
    size, rows = segments[first].size, segments[first].rows
    while first > 0:
        older = segments[first - 1]
        if older.size > size:
            return first, False
        size, rows = size + older.size, rows + older.rows
        if limits.exceeded(size, rows):
            return first, True
        first -= 1
    return first, False


# Reading groups of segments, without dropped records.

Stay = Callable[[pa.RecordBatch, Int64s], Bools] | None
"""Returns a mask of the records to keep, for a batch with positions; None: all."""

NO_COLUMNS = pa.schema([])

MOST_BYTES = 512 << 20
"""The greatest size of a part in memory. An array of texts holds at most 2 GB, so larger groups are split."""


@dataclass(frozen=True)
class Part:
    """The remaining records of adjacent segments. `size`: bytes in memory. `gone`: the number of dropped records.

    `replaced`: the segments.
    """

    rewritten: Rewritten
    size: int
    gone: int
    replaced: Group

    @property
    def schema(self) -> pa.Schema | None:
        """The columns that all parts of a file have; None without records."""
        records = self.rewritten.records
        return None if not records.num_rows else _without_headers(records.schema)


@dataclass(frozen=True)
class Marks:
    """The marks of a rewritten segment: see `Segment`."""

    clean: bool
    tombstones: int | None
    deletions: Deletions

    @classmethod
    def of_part(cls, part: Part, clean: bool, deletions: Deletions | None = None) -> Marks:
        """`deletions`: the new ones for the first segment of a changelog."""
        first = part.replaced[0]
        if deletions is None:
            return cls(clean, None, first.deletions)
        own = first.deletions if first.base_position else deletions
        return cls(clean, _tombstones(part.rewritten.records) if clean else None, own)

    def apply(self, segment: Segment) -> Segment:
        """The segment with these marks."""
        return replace(segment, clean=self.clean, tombstones=self.tombstones, deletions=self.deletions)


def _tombstones(records: pa.Table) -> int:
    return int(records.column("value").null_count) if records.num_rows else 0


def fetched(log: RangeReader, segments: Iterable[Segment], columns: Iterable[str] | None = None) -> Iterator[Fetched]:
    """The records of segments. Raises the errors of `RangeReader.read`."""
    names = None if columns is None else list(columns)
    for segment in segments:
        if segment.rows:
            yield from log.read(segment.range(), None, names)


def remaining(log: RangeReader, group: Group, stay: Stay = None) -> Iterator[Part]:
    """The remaining records of a group, usually one part, with the columns of all segments in their widest types.

    Several parts, if types of a column have no common type, or if they have more than MOST_BYTES. Raises the errors of
    `RangeReader.read`.
    """
    run: list[tuple[Segment, list[Fetched]]] = []
    schema, size = NO_COLUMNS, 0
    for segment in group:
        pieces = [_kept(piece, stay) for piece in fetched(log, (segment,))]
        kept = [piece for piece in pieces if len(piece)]
        own = kept[0].records.schema if kept else NO_COLUMNS
        both = schema_of_both(schema, own)
        more = sum(piece.records.nbytes for piece in kept)
        if run and (both is None or size + more > MOST_BYTES):
            yield part_of(run, schema)
            run, size, both = [], 0, None
        size += more
        schema = own if both is None else both
        run.append((segment, kept))
    yield part_of(run, schema)


def empty_part(group: Group) -> Part:
    """The part of a group without remaining records."""
    return part_of([(segment, []) for segment in group], NO_COLUMNS)


def _kept(piece: Fetched, stay: Stay) -> Fetched:
    """The records to keep; `end` does not change. The mask [True, False, True] keeps the rows 0 and 2."""
    if stay is None:
        return piece
    stays = stay(piece.records, piece.positions)
    if stays.all():
        return piece
    rows = np.flatnonzero(stays)
    return replace(
        piece,
        records=piece.records.take(pa.array(rows)),
        positions=piece.positions[rows],
        offsets=piece.offsets[rows],
    )


def part_of(run: list[tuple[Segment, list[Fetched]]], schema: pa.Schema) -> Part:
    """The part of adjacent segments with their remaining records. `schema`: the columns of all."""
    pieces = [piece for _, kept in run for piece in kept]
    segments = tuple(segment for segment, _ in run)
    schema = _headers_last(schema)
    batches = [as_schema(piece.records, schema) for piece in pieces]
    records = pa.Table.from_batches(batches) if batches else pa.table({})
    first, last, none = segments[0], segments[-1], np.empty(0, np.int64)
    rewritten = Rewritten(
        partition=first.partition,
        lane=first.lane,
        start=first.base_position,
        end=last.end_position,
        start_offset=first.base_offset,
        end_offset=last.end_offset,
        records=records,
        positions=np.concatenate([none, *(piece.positions for piece in pieces)]),
        offsets=np.concatenate([none, *(piece.offsets for piece in pieces)]),
    )
    gone = sum(segment.rows for segment in segments) - records.num_rows
    return Part(rewritten, records.nbytes, gone, segments)


def _headers_last(schema: pa.Schema) -> pa.Schema:
    at = schema.get_field_index(HEADERS)
    return schema if at < 0 else _without_headers(schema).append(schema.field(at))


def _without_headers(schema: pa.Schema) -> pa.Schema:
    at = schema.get_field_index(HEADERS)
    return schema if at < 0 else schema.remove(at)


# The files of a round. Remaining records of several lanes of a topic share a file.

FILE_BYTES = 32 << 20
"""A file gets no more records after this number of uncompressed bytes."""


@dataclass
class Exchange:
    """Replacements `new` of the segments `replaced` of a lane. `failed`: an error made it incomplete.

    Mutable: grows while files are written.
    """

    new: list[Segment] = field(default_factory=list)
    replaced: list[Segment] = field(default_factory=list)
    failed: bool = False

    def add(self, new: Segment, replaced: Sequence[Segment]) -> None:
        """Add the replacement of some segments."""
        self.new.append(new)
        self.replaced += replaced


class Files:
    """Writes parts into files."""

    def __init__(self, log: Log, application: str, incarnation: str, generation: int) -> None:
        self._log = log
        self._application = application
        self._incarnation = incarnation
        self._generation = generation
        self._waiting: list[tuple[Part, Marks, Exchange]] = []
        self._schema: pa.Schema | None = None
        self._size = 0
        self._written: dict[str, None] = {}

    @property
    def written(self) -> tuple[str, ...]:
        """The paths of written files, in order."""
        return tuple(self._written)

    def add(self, part: Part, marks: Marks, into: Exchange) -> None:
        """Add a part to some file. Its segment is added to `into` once it is written, at the latest with `flush`.

        Raises OSError, MachineError.
        """
        if self._waiting and not self._fits(part):
            self.flush()
        self._waiting.append((part, marks, into))
        self._schema = self._schema or part.schema
        self._size += part.size
        if self._size >= FILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all waiting parts. Raises OSError, MachineError."""
        if not self._waiting:
            return
        waiting, self._waiting, self._schema, self._size = self._waiting, [], None, 0
        topic = waiting[0][0].replaced[0].topic
        name = rewritten_file_name(self._incarnation, self._generation, uuid.uuid4().hex)
        rewritten = [part.rewritten for part, _, _ in waiting]
        try:
            segments = self._log.write_rewritten(self._application, topic, name, rewritten)
        except BaseException:
            for _, _, into in waiting:
                into.failed = True
            raise
        for segment, (part, marks, into) in zip(segments, waiting, strict=True):
            epochs = sum(replaced.epochs for replaced in part.replaced)
            into.add(replace(marks.apply(segment), epochs=epochs), part.replaced)
            if segment.path:
                self._written[segment.path] = None

    def drop(self, exchange: Exchange) -> None:
        """Drop the waiting parts of an exchange, which has failed."""
        exchange.failed = True
        self._waiting = [entry for entry in self._waiting if entry[2] is not exchange]
        self._size = sum(part.size for part, _, _ in self._waiting)
        self._schema = next((part.schema for part, _, _ in self._waiting if part.schema is not None), None)

    def remove(self) -> None:
        """Remove all written files, which no commit will list."""
        for path in self._written:
            self._log.remove(path)

    def _fits(self, part: Part) -> bool:
        """Whether a part can share a file with the waiting ones: same topic, same columns."""
        same = self._waiting[0][0].replaced[0].topic == part.replaced[0].topic
        return same and (None in (schema := part.schema, self._schema) or schema == self._schema)
