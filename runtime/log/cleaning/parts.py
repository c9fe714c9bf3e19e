"""Reads groups of segments, without what goes, and gives what is left of them in forms that can share a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...records.arrays import Bools, Int64s
from ...records.schema import HEADERS
from ...records.widening import as_schema, schema_of_both
from ..ranges import Fetched, RangeReader
from ..rewritten import Rewritten
from ..segments.segment import Deletions, Segment
from .merging import Group

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
