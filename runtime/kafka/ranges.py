"""Ranges of raw topics: what plans have of topics in Kafka, read from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from ..ir.topology import KafkaCluster
from ..log.ranges import Columns, Fetched, LogRange, RangeReader
from ..records.arrays import to_numpy
from ..records.headers import headers_text
from ..records.schema import HEADERS
from ..records.types import Kind
from .reader import KafkaRange, open_reader
from .sources import topic_of


class KafkaRanges:
    """Reads ranges of raw topics from Kafka, and all others from `log`. `group`: that brokers see, without the prefix.

    Positions and offsets of a record are its offset in Kafka. Keys and values are bytes.
    """

    def __init__(self, log: RangeReader, clusters: Mapping[str, KafkaCluster], group: str) -> None:
        self._log = log
        self._clusters = clusters
        self._group = group

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """See `RangeReader.read`. Raises the errors of `KafkaReader.read` too."""
        kafka = topic_of(within.token)
        if kafka is None:
            yield from self._log.read(within, start, columns)
            return
        start = max(within.start, within.start if start is None else start)
        reader = open_reader(self._clusters[kafka.cluster], self._group)
        names = columns.names if isinstance(columns, pa.Schema) else columns
        headers = kafka.headers and (names is None or HEADERS in names)
        pieces = reader.read(KafkaRange(kafka.name, kafka.id, within.partition, start, within.end, headers))
        # One piece is held back: the last one ends with the range, behind offsets without records.
        piece = next(pieces, None)
        while piece is not None:
            following = next(pieces, None)
            offsets = to_numpy(piece.column("offset"))
            end = within.end if following is None else int(offsets[-1]) + 1
            yield Fetched(_records(piece, names), offsets, offsets, end)
            piece = following

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        """See `RangeReader.ahead`. Kafka's client reads ahead by itself."""
        wanted = list(ranges)
        if any(topic_of(within.token) is not None for within, _ in wanted):
            return self
        return self._log.ahead(wanted)


def _records(piece: pa.RecordBatch, names: Sequence[str] | None) -> pa.RecordBatch:
    """The columns of a raw topic, see `topic_schema`."""
    kinds = np.full(len(piece), Kind.VALUE, np.int8)
    columns = {
        "key.key": piece.column("key"),
        "value.value": piece.column("value"),
        "_kind": pa.array(kinds),
        "_timestamp": piece.column("timestamp"),
        "_order": piece.column("timestamp"),
        HEADERS: _headers(piece.column("headers")),
    }
    chosen = columns if names is None else {name: columns[name] for name in names}
    return pa.RecordBatch.from_pydict(chosen)


def _headers(column: pa.ListArray) -> pa.StringArray:
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    # Column by column: rows of structs as Python values take three times as long.
    flat = column.flatten()
    pairs = list(zip(flat.field("name").to_pylist(), flat.field("value").to_pylist(), strict=True))
    counts = to_numpy(column.value_lengths().fill_null(0))
    ends = np.cumsum(counts)
    texts = (headers_text(pairs[end - count : end]) for end, count in zip(ends.tolist(), counts.tolist(), strict=True))
    return pa.array(texts, pa.string())
