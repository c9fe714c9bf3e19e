"""How the rows that a seed gives now differ from its committed records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..log.commit.fed_records import SeededPart
from ..log.log import Log
from ..log.state import LogState
from ..records.arrays import pieces_in_order, to_numpy
from ..records.keys.encoding import encode_keys
from ..records.schema import key_columns, topic_schema
from ..records.widening import as_schema
from ..topology import Topic
from .append import WRITE_BYTES, placed
from .incoming import Incoming
from .repartition.order import in_order, went_in_turns
from .repartition.rekeying import rekeyed


def seed_difference(log: Log, state: LogState, topic: Topic, rows: Iterable[Incoming]) -> str | None:
    """In words; None if they are the same, with the columns that the topic has now. Both are held in memory.

    Raises SeedError, and errors of the log.
    """
    parts = state.seeds[topic.name].parts
    if parts is None:
        return "what it gave then is not known, as an earlier version has written it"
    schema = topic_schema(topic, headers=True)
    declared = state.topics.get(topic.name)
    if declared is not None and (declared.moved or declared.can_move_to(topic)):
        return _difference_by_key(log, state, topic, parts, rows, schema)
    then = [_committed(log, state, topic.name, part, schema) for part in parts]
    now = _given(topic, rows, schema)
    counts = [sum(table.num_rows for table in tables) for tables in (then, now.values())]
    if counts[0] != counts[1]:
        return _other_count(counts[1], counts[0])
    known = {part.partition: table for part, table in zip(parts, then, strict=True) if table.num_rows}
    if known.keys() != now.keys() or any(known[each].num_rows != now[each].num_rows for each in now):
        return "its records go to other partitions"
    names = [name for name in schema.names if any(not known[each][name].equals(now[each][name]) for each in now)]
    return _other_values(names)


def _difference_by_key(
    log: Log, state: LogState, topic: Topic, parts: Sequence[SeededPart], rows: Iterable[Incoming], schema: pa.Schema
) -> str | None:
    """The same of records that do not lie where the seed has put them. Those of a key have kept their order."""
    by_time = bool(state.topics[topic.name].key) or not went_in_turns([each.end - each.start for each in parts])
    other_key = state.topics[topic.name].key != topic.key
    pieces = in_order([iter(_raw(log, state, topic.name, each)) for each in parts], by_time=by_time)
    found = (rekeyed(topic, each) if other_key else each for each in pieces)
    then = _by_key(topic, _whole([as_schema(each, schema) for each in found], schema))
    given = [as_schema(batch, schema) for table, _ in placed(topic, rows) for batch in table.to_batches()]
    now = _by_key(topic, _whole(given, schema))
    if then.num_rows != now.num_rows:
        return _other_count(now.num_rows, then.num_rows)
    return _other_values([name for name in schema.names if not then[name].equals(now[name])])


def _by_key(topic: Topic, records: pa.Table) -> pa.Table:
    """Records sorted by key; those of a key keep their order, and those without one come by time."""
    names = key_columns(topic)
    if not names or not records.num_rows:
        return records
    keys = encode_keys([records[f"key.{name}"].combine_chunks() for name in names])
    times = pc.if_else(pc.is_valid(keys), 0, records["_timestamp"].combine_chunks())
    order = pc.sort_indices(
        pa.table({"key": keys, "time": times, "row": pa.array(np.arange(records.num_rows))}),
        [("key", "ascending"), ("time", "ascending"), ("row", "ascending")],
    )
    return pa.concat_tables(
        [table for table, _ in pieces_in_order(records, to_numpy(order).astype(np.int64), WRITE_BYTES)]
    )


def _raw(
    log: Log, state: LogState, topic: str, part: SeededPart, schema: pa.Schema | None = None
) -> list[pa.RecordBatch]:
    """The records of a seed in a partition."""
    found: list[pa.RecordBatch] = []
    for within in state.ranges(topic, part.partition, part.start):
        if within.start_offset < part.end:
            for fetched in log.read(within, within.position_of(part.start), schema):
                rows = np.flatnonzero((fetched.offsets >= part.start) & (fetched.offsets < part.end))
                found.append(fetched.records.take(pa.array(rows)))
    return found


def _other_count(now: int, then: int) -> str:
    return f"it gives {now:,} records, and {then:,} are committed"


def _other_values(names: Sequence[str]) -> str | None:
    return f"other values of {', '.join(map(_shown, names))}" if names else None


def _committed(log: Log, state: LogState, topic: str, part: SeededPart, schema: pa.Schema) -> pa.Table:
    return _whole(_raw(log, state, topic, part, schema), schema)


def _given(topic: Topic, rows: Iterable[Incoming], schema: pa.Schema) -> dict[int, pa.Table]:
    """The rows of each partition that has some."""
    found: dict[int, list[pa.RecordBatch]] = {}
    for table, partitions in placed(topic, rows):
        for partition in np.unique(partitions).tolist():
            own = table.filter(pa.array(partitions == partition))
            found.setdefault(partition, []).extend(as_schema(batch, schema) for batch in own.to_batches())
    return {partition: _whole(batches, schema) for partition, batches in found.items()}


def _whole(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _shown(column: str) -> str:
    return column.removeprefix("value.").removeprefix("key.").removeprefix("_")
