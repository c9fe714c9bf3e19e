"""Decodes records that come from Kafka, and produces records to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ....errors import HeadwaterError
from ...ir.topology import KafkaTopic, PluginRef, SchemaRegistry, Topic
from ...kafka.outgoing import (
    Outgoing,
    PositionMovedError,
    RebuiltResultError,
    ResultNotWholeError,
    ResultReplacedError,
    Standing,
    TransactionLostError,
)
from ...log.ranges import RangeReader
from ...records.arrays import Bools, Int64s, to_numpy
from ...records.schema import invalid_timestamps, key_columns, times_of_column, timestamp_error, value_columns
from ...records.types import Kind
from ...serdes.serde import Deserializer, Encoded, PayloadSpec, Role, Serializer, null_keys
from ..operators.kafka import Decode, Produce
from .kafka_changes import Contents, differences, last_values
from .node import EachFailedError, Edges, TaskEpoch
from .rows import Rows

_TRIES = 3
"""How often a transaction is tried that another producer has ended."""

# What the worker gives to these operators.


class Mirror(Protocol):
    """Writes the records of one task to a topic in Kafka, see `KafkaMirror`."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the topic in Kafka."""
        ...

    def refused(self, records: Outgoing, /) -> Mapping[int, str]:
        """Row -> why the topic does not take the record."""
        ...

    def standing(self, result: str, /, *, afresh: bool = False) -> Standing:
        """How far Kafka has the records of the task, of a result. `afresh`: positions may have been removed."""
        ...

    def produce(self, records: Outgoing, result: str, positions: Mapping[int, int], /) -> None:
        """Produce records and the task's new position in a result, in one transaction. Raises TransactionLostError:
        then `standing` says how far Kafka is.
        """
        ...

    def contents(self) -> Contents:
        """All committed records of the topic in Kafka, partition by partition."""
        ...


class KafkaAccess(Protocol):
    """What a worker has of Kafka."""

    def reader(self, log: RangeReader) -> RangeReader:
        """A reader of ranges of the log, and of raw topics."""
        ...

    def registry(self, cluster: str) -> SchemaRegistry | None:
        """The schema registry of a cluster; None without one."""
        ...

    def deserializer(self, form: PluginRef, spec: PayloadSpec) -> Deserializer:
        """The deserializer of keys or values. Raises SerdeError, and errors of plugins."""
        ...

    def serializer(self, form: PluginRef, spec: PayloadSpec) -> Serializer:
        """The serializer of keys or values. Raises SerdeError, and errors of plugins."""
        ...

    def mirror(self, topic: KafkaTopic, task: str) -> Mirror:
        """The mirror of a task. `task`: its name, the same in every process."""
        ...

    def result(self, writer: str) -> str:
        """The incarnation of an application that the log has now."""
        ...


class RecordNotInFormatError(HeadwaterError):
    """The key or the value of a record does not have the declared format, or cannot be written."""


# Records from Kafka.


def decode(step: Decode, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Decode`. Raises EachFailedError, SerdeError."""
    rows = edges[step.flow]
    errors: dict[int, str] = {}
    keys, _ = _decoded(step, epoch, Role.KEY, rows.columns["key"], errors)
    values, tombstones = _decoded(step, epoch, Role.VALUE, rows.columns["value"], errors)
    times = _event_times(step.topic, rows, values, tombstones, errors)
    if errors:
        raise _each_failed(rows, errors)
    order = rows.order
    if not epoch.trial:  # there `_order` is the number of the record
        order = np.maximum(np.maximum.accumulate(times), epoch.stream_time)
        # Also without a record: the times of records that are skipped count nowhere, or results would depend on epochs.
        epoch.timed = int(order[-1]) if len(order) else epoch.stream_time
    kind = np.where(tombstones, np.int8(Kind.TOMBSTONE), np.int8(Kind.VALUE))
    edges[step.flow] = replace(rows.with_columns(keys, values), kind=kind, timestamp=times, order=order)


def _decoded(
    step: Decode, epoch: TaskEpoch, role: Role, payloads: pa.BinaryArray, errors: dict[int, str]
) -> tuple[dict[str, pa.Array], Bools]:
    """The columns of keys or values, and which of them are null or deletions."""
    form, columns = (step.key, key_columns(step.topic)) if role is Role.KEY else (step.value, value_columns(step.topic))
    decoded = _access(epoch).deserializer(form, _spec(step.source.kafka, role, columns, epoch)).read(payloads)
    for row, error in decoded.errors.items():
        errors.setdefault(row, f"its {role} is no {form.name} of the declared columns: {error}")
    absent = to_numpy(payloads.is_null())
    absent = absent if decoded.deleted is None else absent | decoded.deleted
    return dict(zip(columns, decoded.columns.columns, strict=True)), absent


def _event_times(
    topic: Topic, rows: Rows, values: Mapping[str, pa.Array], tombstones: np.ndarray, errors: dict[int, str]
) -> Int64s:
    """The time of each record in ms: that of the topic's timestamp column, or the record's own."""
    if topic.timestamp is None:
        for row in np.flatnonzero(invalid_timestamps(rows.timestamp)).tolist():
            errors.setdefault(row, f"its timestamp {timestamp_error(int(rows.timestamp[row]))}")
        return rows.timestamp
    column = times_of_column(values[topic.timestamp])
    missing = to_numpy(column.is_null())
    own = missing & tombstones  # a tombstone has no column with its time
    times: Int64s = np.where(own, rows.timestamp, to_numpy(column.fill_null(0)))
    for row in np.flatnonzero((missing & ~own) | invalid_timestamps(times)).tolist():
        cause = "is null" if missing[row] and not own[row] else timestamp_error(int(times[row]))
        errors.setdefault(row, f"its timestamp ({topic.timestamp}) {cause}")
    return times


# Records for Kafka.


def produce(step: Produce, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Produce`. Raises EachFailedError, SerdeError, the errors of `kafka/outgoing.py`, and errors of Kafka."""
    rows = edges.pop(step.flow)
    errors: dict[int, str] = {}
    keys = _encoded(step, epoch, Role.KEY, rows, errors)
    values = _encoded(step, epoch, Role.VALUE, rows, errors)
    kafka = replace(step.kafka, id=epoch.targets.get(step.topic.name, ""))
    mirror = _access(epoch).mirror(kafka, epoch.task)
    partitions = keys.partitions(mirror.partitions)
    by_key = np.where(partitions < 0, epoch.partition % mirror.partitions, partitions)
    headers = rows.headers if step.kafka.headers else None
    records = Outgoing(keys.payloads, values.payloads, by_key, rows.timestamp, headers)
    for row, why in mirror.refused(records).items():
        errors.setdefault(row, f"{step.kafka.name} in Kafka does not take the record: {why}")
    if errors:
        raise _each_failed(rows, errors)
    if epoch.trial:
        return
    for _ in range(_TRIES - 1):
        with suppress(TransactionLostError):
            _produce(step, rows, records, mirror, epoch)
            return
    _produce(step, rows, records, mirror, epoch)


def _produce(step: Produce, rows: Rows, records: Outgoing, mirror: Mirror, epoch: TaskEpoch) -> None:
    """Produce the records that Kafka lacks. Raises TransactionLostError, and errors of Kafka."""
    result, positions = epoch.results[step.topic.name], epoch.positions[step.topic.name]
    there = _known(step, mirror, result, epoch)
    whole = step.recomputed == "changes" and epoch.begins and not there
    if not whole and all(position <= there.get(lane, 0) for lane, position in positions.items()):
        return
    if whole:
        if not epoch.whole:
            raise ResultNotWholeError(step.topic.name)
        spec = _spec(step.kafka, Role.KEY, key_columns(step.topic), epoch)
        deserializer = _access(epoch).deserializer(step.key, spec)
        known = last_values(step.topic, epoch.partition, mirror.contents(), deserializer, step.kafka.name)
        mirror.produce(differences(records, known, epoch.now), result, positions)
        return
    new = _beyond(step, rows, epoch, there)
    # Never back: an epoch of another driver may have gone further in one lane, and less far in another one.
    furthest = {lane: max(positions.get(lane, 0), there.get(lane, 0)) for lane in positions.keys() | there.keys()}
    mirror.produce(records if len(new) == len(records) else records.take(new), result, furthest)


def _known(step: Produce, mirror: Mirror, result: str, epoch: TaskEpoch) -> Mapping[int, int]:
    """The position that Kafka has in a result. Nothing of it if Kafka has an earlier one, which this one may follow."""
    standing = mirror.standing(result, afresh=epoch.begins)
    if standing.replaces:
        if not epoch.begins:
            raise PositionMovedError(step.topic.name, step.kafka.name)
        if step.recomputed == "refuse":
            raise RebuiltResultError(step.topic.name, step.kafka.name)
        # After `standing`, which fences others: whoever finds its result in the log now is the only one that writes.
        assert step.topic.writer is not None
        if _access(epoch).result(step.topic.writer) != result:
            raise ResultReplacedError(step.topic.name)
    return standing.positions


def _beyond(step: Produce, rows: Rows, epoch: TaskEpoch, there: Mapping[int, int]) -> Int64s:
    """The rows that Kafka lacks: those of records at or behind the position that it has of their lane."""
    assert epoch.origins is not None
    lanes, positions = epoch.origins.places_in(step.topic.name, epoch.origins.numbers_of(rows))
    known = np.zeros(max([*lanes.tolist(), *there], default=0) + 1, np.int64)
    known[list(there)] = list(there.values())
    return np.flatnonzero(positions >= known[lanes])


def _encoded(step: Produce, epoch: TaskEpoch, role: Role, rows: Rows, errors: dict[int, str]) -> Encoded:
    if role is Role.KEY:
        form, columns, given = step.key, key_columns(step.topic), rows.keys
    else:
        form, columns, given = step.value, value_columns(step.topic), rows.values
    spec = _spec(step.kafka, role, columns, epoch)
    if columns:
        batch = pa.RecordBatch.from_arrays([given[name] for name in columns], schema=spec.schema)
    else:
        batch = pa.RecordBatch.from_arrays([pa.nulls(len(rows))], [""]).select([])
    absent = null_keys(batch) if role is Role.KEY else rows.kind != Kind.VALUE
    encoded = _access(epoch).serializer(form, spec).write(batch, absent)
    for row, error in encoded.errors.items():
        errors.setdefault(row, f"its {role} cannot be written as {form.name}: {error}")
    return encoded


def _spec(kafka: KafkaTopic | None, role: Role, columns: Mapping[str, pa.DataType], epoch: TaskEpoch) -> PayloadSpec:
    assert kafka is not None
    return PayloadSpec(kafka.name, role, columns, _access(epoch).registry(kafka.cluster))


def _access(epoch: TaskEpoch) -> KafkaAccess:
    assert epoch.kafka is not None
    return epoch.kafka


def _each_failed(rows: Rows, errors: Mapping[int, str]) -> EachFailedError:
    failed = [(int(rows.order[row]), RecordNotInFormatError(errors[row])) for row in sorted(errors)]
    return EachFailedError(failed, by_itself=True)
