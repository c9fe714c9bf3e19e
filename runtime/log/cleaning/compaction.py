"""Compaction of segments."""

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

# Which records of a lane stay: the last of each key, and of those the ones that have not expired.

_AT_ONCE = 1_000_000
"""Keys that are gathered before repeated ones are put together."""


@dataclass(frozen=True)
class LastPositions:
    """For each of some keys, the position of its last record."""

    keys: pa.Array
    positions: Int64s

    @classmethod
    def of(cls, pieces: Iterable[Fetched], key: Sequence[str]) -> LastPositions:
        """Those of the keys of records. `key`: the columns of the key, which the records have. Null keys are none."""
        found = cls(pa.array([], pa.binary()), np.empty(0, np.int64))
        waiting, count = [found], 0
        for piece in pieces:
            waiting.append(cls(keys_of(piece.records, key), piece.positions))
            count += len(piece)
            if count >= _AT_ONCE:
                waiting, count = [cls._joined(waiting)], 0
        return cls._joined(waiting)

    @classmethod
    def _joined(cls, parts: Sequence[LastPositions]) -> LastPositions:
        keys = pc.dictionary_encode(pa.concat_arrays([part.keys for part in parts]))
        positions = np.concatenate([part.positions for part in parts])
        there = to_numpy(keys.is_valid())
        last = np.full(len(keys.dictionary), -1, np.int64)
        np.maximum.at(last, to_numpy(keys.indices.drop_null()), positions[there])
        return cls(keys.dictionary, last)

    def stay(self, keys: pa.Array, positions: Int64s) -> Bools:
        """Which records have a key that has no later record. Null keys stay."""
        found = pc.index_in(keys, value_set=self.keys)
        known = to_numpy(found.is_valid())
        stays = np.ones(len(keys), bool)
        stays[known] = positions[known] >= self.positions[to_numpy(found.drop_null())]
        return stays


def keys_of(records: pa.RecordBatch | pa.Table, key: Sequence[str]) -> pa.Array:
    """The bytes of the records' keys. A changelog has them as such."""
    columns = [records.column(name) for name in key]
    plain = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    if len(plain) == 1 and pa.types.is_binary(plain[0].type) and key[0] == "key":
        return plain[0]
    return encode_keys(plain)


# Which neighbouring segments of a lane are merged, so that it has few.
#
# Source: the size-tiered ("universal") compaction of log-structured stores such as RocksDB. From a segment back, each
# older one is taken that is not larger than all taken so far. So a record's segment at least doubles each time it is
# written again, and a lane of n bytes has about log n segments, the larger ones first, until they have their full size.

Group = tuple[Segment, ...]
"""Neighbouring segments of a lane, which become one."""


@dataclass(frozen=True)
class Limits:
    """`fan_out`: the least number of segments that are worth a merge. `size`, `rows`: most bytes and records of a
    merged segment: while it is made, all of it is in memory, unpacked.
    """

    fan_out: int = 8
    size: int = 16 << 20
    rows: int = 1_000_000

    def exceeded(self, size: int, rows: int) -> bool:
        """Whether this is too much for one segment."""
        return size > self.size or rows > self.rows


LIMITS = Limits()


def merges(segments: Sequence[Segment], limits: Limits = LIMITS) -> Iterator[Group]:
    """Groups of neighbours to merge, the newest first; none, where there are few segments of each size."""
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
    """All segments, in groups of neighbours that can become one each."""
    first, size, rows = 0, 0, 0
    for at, segment in enumerate(segments):
        size, rows = size + segment.size, rows + segment.rows
        if at > first and limits.exceeded(size, rows):
            yield tuple(segments[first:at])
            first, size, rows = at, segment.size, segment.rows
    if segments:
        yield tuple(segments[first:])


def _first(segments: Sequence[Segment], end: int, limits: Limits) -> tuple[int, bool]:
    """Where the group begins that ends before `end`, and whether it has its full size there."""
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


# Reads groups of segments, without what goes, and gives what is left of them in forms that can share a file.

Stay = Callable[[pa.RecordBatch, Int64s], Bools] | None
"""Which records stay, of a batch with their positions; None: all."""

_NO_COLUMNS = pa.schema([])

MOST_BYTES = 512 << 20
"""Bytes of a part, in memory: segments that would be more together stay apart, as no array of texts has above 2 GB."""


@dataclass(frozen=True)
class Part:
    """What is left of neighbouring segments. `size`: bytes in memory. `gone`: how many records are not there any more.

    `replaced`: the segments.
    """

    rewritten: Rewritten
    size: int
    gone: int
    replaced: Group

    @property
    def schema(self) -> pa.Schema | None:
        """What others must have to share a file; None if no record is left."""
        records = self.rewritten.records
        return None if not records.num_rows else _without_headers(records.schema)


@dataclass(frozen=True)
class Says:
    """What a rewritten segment says of its records: see `Segment`."""

    clean: bool
    tombstones: int | None
    deletions: Deletions

    @classmethod
    def of_part(cls, part: Part, clean: bool, deletions: Deletions | None = None) -> Says:
        """`deletions`: of a changelog, what its first segment says from now on."""
        first = part.replaced[0]
        if deletions is None:
            return cls(clean, None, first.deletions)
        says = first.deletions if first.base_position else deletions
        return cls(clean, _tombstones(part.rewritten.records) if clean else None, says)

    def of(self, segment: Segment) -> Segment:
        """The segment that says so."""
        return replace(segment, clean=self.clean, tombstones=self.tombstones, deletions=self.deletions)


def _tombstones(records: pa.Table) -> int:
    return int(records.column("value").null_count) if records.num_rows else 0


def fetched(log: RangeReader, segments: Iterable[Segment], columns: Iterable[str] | None = None) -> Iterator[Fetched]:
    """The records of segments. Raises as `RangeReader.read`."""
    names = None if columns is None else list(columns)
    for segment in segments:
        if segment.rows:
            yield from log.read(segment.range(), None, names)


def left_of(log: RangeReader, group: Group, stay: Stay = None) -> Iterator[Part]:
    """What is left of a group: one part, with the columns that any segment has, each in the widest of its types.

    Several parts, if a column has types of which none is the widest, or if they would have more than MOST_BYTES.

    Raises as `RangeReader.read`.
    """
    run: list[tuple[Segment, list[Fetched]]] = []
    schema, size = _NO_COLUMNS, 0
    for segment in group:
        found = [_staying(each, stay) for each in fetched(log, (segment,))]
        kept = [each for each in found if len(each)]
        own = kept[0].records.schema if kept else _NO_COLUMNS
        both = schema_of_both(schema, own)
        more = sum(each.records.nbytes for each in kept)
        if run and (both is None or size + more > MOST_BYTES):
            yield _part(run, schema)
            run, size, both = [], 0, None
        size += more
        schema = own if both is None else both
        run.append((segment, kept))
    yield _part(run, schema)


def nothing_of(group: Group) -> Part:
    """A group of which no record is left."""
    return _part([(segment, []) for segment in group], _NO_COLUMNS)


def _staying(found: Fetched, stay: Stay) -> Fetched:
    if stay is None:
        return found
    stays = stay(found.records, found.positions)
    if stays.all():
        return found
    rows = np.flatnonzero(stays)
    return replace(
        found,
        records=found.records.take(pa.array(rows)),
        positions=found.positions[rows],
        offsets=found.offsets[rows],
    )


def _part(run: list[tuple[Segment, list[Fetched]]], schema: pa.Schema) -> Part:
    pieces = [each for _, found in run for each in found]
    segments = tuple(segment for segment, _ in run)
    schema = _headers_last(schema)
    batches = [as_schema(each.records, schema) for each in pieces]
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
        positions=np.concatenate([none, *(each.positions for each in pieces)]),
        offsets=np.concatenate([none, *(each.offsets for each in pieces)]),
    )
    gone = sum(segment.rows for segment in segments) - records.num_rows
    return Part(rewritten, records.nbytes, gone, segments)


def _headers_last(schema: pa.Schema) -> pa.Schema:
    at = schema.get_field_index(HEADERS)
    return schema if at < 0 else _without_headers(schema).append(schema.field(at))


def _without_headers(schema: pa.Schema) -> pa.Schema:
    at = schema.get_field_index(HEADERS)
    return schema if at < 0 else schema.remove(at)


# The files of a round: what is left of several lanes of a topic goes into one.

FILE_BYTES = 32 << 20
"""A file gets no more records once it has so many bytes of them, unpacked."""


@dataclass
class Exchange:
    """Segments of a lane that are to take the place of others, which they span. `failed`: some of it could not be
    made. Mutable: grows while files are written.
    """

    new: list[Segment] = field(default_factory=list)
    replaced: list[Segment] = field(default_factory=list)
    failed: bool = False

    def add(self, new: Segment, replaced: Sequence[Segment]) -> None:
        """One segment for some."""
        self.new.append(new)
        self.replaced += replaced


class Files:
    """Writes parts into files. `written`: the paths of those that are there."""

    def __init__(self, log: Log, application: str, incarnation: str, generation: int) -> None:
        self._log = log
        self._application = application
        self._incarnation = incarnation
        self._generation = generation
        self._waiting: list[tuple[Part, Says, Exchange]] = []
        self._schema: pa.Schema | None = None
        self._size = 0
        self._written: dict[str, None] = {}

    @property
    def written(self) -> tuple[str, ...]:
        """The files, in their order."""
        return tuple(self._written)

    def add(self, part: Part, says: Says, into: Exchange) -> None:
        """Have a part written into some file. Its segment is added to `into` then, at the latest with `flush`.

        Raises OSError, MachineError.
        """
        if self._waiting and not self._fits(part):
            self.flush()
        self._waiting.append((part, says, into))
        self._schema = self._schema or part.schema
        self._size += part.size
        if self._size >= FILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Raises OSError, MachineError."""
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
        for segment, (part, says, into) in zip(segments, waiting, strict=True):
            epochs = sum(each.epochs for each in part.replaced)
            into.add(replace(says.of(segment), epochs=epochs), part.replaced)
            if segment.path:
                self._written[segment.path] = None

    def give_up(self, exchange: Exchange) -> None:
        """Write nothing more of an exchange."""
        exchange.failed = True
        self._waiting = [each for each in self._waiting if each[2] is not exchange]
        self._size = sum(part.size for part, _, _ in self._waiting)
        self._schema = next((part.schema for part, _, _ in self._waiting if part.schema is not None), None)

    def remove(self) -> None:
        """Remove what was written, as nothing will list it."""
        for path in self._written:
            self._log.remove(path)

    def _fits(self, part: Part) -> bool:
        """Whether a part can go into the file of those that wait: it is of their topic and has their columns."""
        same = self._waiting[0][0].replaced[0].topic == part.replaced[0].topic
        return same and (None in (schema := part.schema, self._schema) or schema == self._schema)
