"""Operators that read topics (sources) and write topics (sinks)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import HeadwaterError, shortened
from ...ir.topology import Topic
from ...log.ranges import RangeReader
from ...records.arrays import Int64s, cast_to, to_numpy
from ...records.keys import encode_keys, partition_of
from ...records.schema import WINDOW_COLUMNS, key_columns, value_columns
from ...records.types import Kind
from ...tasks.plan import TaskPlan
from ..operators.operator import Flow, Untraced
from ..operators.topics import RoutedSink, Sink, Source
from .keyed.groups import group_by, last_rows
from .node import EachFailedError, Edges, TaskEpoch, Written, step_name
from .order.partition_group import Reading, TakenRecords, read_task
from .rows import Rows, is_old

# Sources. `order.partition_group.read_task` decides the order over all sources of a task.


def take(
    plan: TaskPlan, sources: Sequence[Source], log: RangeReader, *, reject_times: bool = True
) -> tuple[TakenRecords, Edges]:
    """Read a task's records of an epoch onto the edges of the sources, without records that the plan skips."""
    readings = [Reading(source.topic, _flow(source), rank) for rank, source in enumerate(sources)]
    taken = read_task(plan, readings, log, reject_times=reject_times)
    edges: Edges = {}
    for source, rows in zip(sources, taken.kept, strict=True):
        for number, name in enumerate(source.edges):
            edges[name] = rows if len(source.edges) == 1 else rows.deeper(np.full(len(rows), number))
    return taken, edges


def _flow(source: Source) -> Flow:
    return source.output_columns({}, Untraced())[source.edges[0]].flow


def take_bare(plan: TaskPlan, sources: Sequence[Source], log: RangeReader, count: int) -> TakenRecords:
    """Read the same `count` records as `take` did, without columns."""
    readings = [Reading(source.topic, Flow("", ""), rank) for rank, source in enumerate(sources)]
    # Records without columns are smaller, so a limit of bytes would end the epoch elsewhere.
    return read_task(replace(plan, max_records=count, max_bytes=None), readings, log, reject_times=False)


# Sinks: choose the rows to write, their timestamps and partitions.


def write(sink: Sink, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Sink`."""
    written = _written(sink, edges.pop(sink.flow), epoch)
    epoch.write(sink.topic, written.rows, written.partitions)
    if sink.flow in epoch.more:
        epoch.write_later(sink.topic, (_written(sink, rows, epoch) for rows in epoch.more.pop(sink.flow)))


def write_routed(sink: RoutedSink, edges: Edges, epoch: TaskEpoch) -> None:
    """See `RoutedSink`. Raises EachFailedError."""
    rows = edges.pop(sink.flow)
    names = rows.columns[sink.by]
    chosen = to_numpy(pc.index_in(names, pa.array([topic.name for topic in sink.topics])).fill_null(-1))
    failed = np.flatnonzero(chosen < 0)
    if len(failed):
        errors = (_no_topic(sink, name) for name in names.take(pa.array(failed)).to_pylist())
        raise EachFailedError([*zip(rows.order[failed].tolist(), errors, strict=True)], sink.by_itself)
    for number, topic in enumerate(sink.topics):
        written = _written(Sink(sink.flow, topic, at=sink.at), rows.filter(chosen == number), epoch)
        epoch.write(topic, written.rows, written.partitions)


def _no_topic(sink: RoutedSink, name: str | None) -> HeadwaterError:
    listed = ", ".join(topic.name for topic in sink.topics)
    given = "null" if name is None else f"'{shortened(name)}'"
    return HeadwaterError(f"`route` gives {given}, which is not among its topics: {listed}")


def _written(sink: Sink, found: Rows, epoch: TaskEpoch) -> Written:
    rows = _conform(found, sink.topic)
    if sink.mode == "repartition":
        keys = _partition_keys(rows, sink.topic)
        rows, keys = _regrouped(sink, rows, keys, epoch)
    else:
        # A topic of a table has only new rows and deletions. Replaced rows serve steps inside the topology.
        if sink.mode == "per_epoch" and not found.collapsed:
            rows = rows.take(_last_changes(rows))
        elif sink.mode != "per_epoch":
            rows = rows.filter(~is_old(rows.kind))
        keys = _partition_keys(rows, sink.topic)
    partitions = partition_of(keys, sink.topic.partitions)
    return Written(rows, np.where(partitions < 0, epoch.partition % sink.topic.partitions, partitions))


def _regrouped(sink: Sink, rows: Rows, keys: pa.BinaryArray, epoch: TaskEpoch) -> tuple[Rows, pa.BinaryArray]:
    """(Rows to write to a repartition topic, their keys). `keys`: encoded, of each row.

    A replaced row gets the timestamp of its change. Its kind says whether both rows of the change go to one group.
    """
    old = is_old(rows.kind)
    kept = (rows.kind != Kind.TOMBSTONE) if sink.of == "table" else np.ones(len(rows), np.bool_)
    if not sink.keep_null_keys and keys.null_count:
        null = to_numpy(keys.is_null())
        records = rows.kind == Kind.VALUE if sink.of == "table" else ~old
        epoch.drop(step_name(sink), "null_key", int((null & records).sum()))
        kept &= ~null
    if old.any():
        replaced = np.flatnonzero(old)
        kind, timestamp = rows.kind.copy(), rows.timestamp.copy()
        # The new row, or the deletion, directly follows the replaced row.
        timestamp[replaced] = timestamp[replaced + 1]
        # A null key equals no key. Rows with null keys are dropped, or kept as groups of their own.
        same = pc.equal(keys.take(pa.array(replaced)), keys.take(pa.array(replaced + 1))).fill_null(False)
        same_group = to_numpy(same) & (kind[replaced + 1] == Kind.VALUE)
        kind[replaced] = np.where(same_group, Kind.OLD_SAME_GROUP, Kind.OLD)
        rows = replace(rows, kind=kind, timestamp=timestamp)
    return rows.filter(kept), keys.filter(pa.array(kept))


def _conform(rows: Rows, topic: Topic) -> Rows:
    """The rows with exactly the topic's columns, by name."""
    keys, values = rows.keys, rows.values
    return rows.with_columns(
        {name: cast_to(keys[name], data_type) for name, data_type in key_columns(topic).items()},
        {name: cast_to(values[name], data_type) for name, data_type in value_columns(topic).items()},
    )


def _partition_keys(rows: Rows, topic: Topic) -> pa.BinaryArray:
    """The encoded keys for partitioning, without window columns. All null in a topic without key columns."""
    columns = [column for name, column in rows.keys.items() if not (topic.windowed and name in WINDOW_COLUMNS)]
    return encode_keys(columns) if columns else pa.nulls(len(rows), pa.binary())


def _last_changes(rows: Rows) -> Int64s:
    """Indexes of the last change of each key, ascending, without rows that were inserted and deleted in this epoch."""
    old = is_old(rows.kind)
    code, first = group_by(list(rows.keys.values()))
    new = np.flatnonzero(~old)
    last = new[last_rows(code[new], len(first))]
    has_old = np.zeros(len(first), np.bool_)
    has_old[code[old]] = True
    # A key with replaced rows, but not before its first change, had no row before the epoch. If its last change is a
    # deletion, nothing is left to write.
    came_and_went = has_old & ~old[first] & (rows.kind[last] == Kind.TOMBSTONE)
    return np.sort(last[~came_and_went])
