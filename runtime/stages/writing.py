"""What a stage writes into the log: the records that its operators have made, and the changes of stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..log.listed import Listed
from ..log.log import Writer, epoch_file_name
from ..operators.rows import Rows, concat, path_order
from ..operators.task_epoch import TaskEpoch, Written
from ..records.arrays import Int64s
from ..records.schema import changelog_topic, topic_schema
from ..tasks.measured import Volume
from ..tasks.outcome import TaskOutcome
from ..tasks.plan import EpochPlan, TaskPlan
from ..timed_parts import timed
from ..topology import Topic
from .stopwatch import Stopwatch


def write_records(
    plan: EpochPlan, task: TaskPlan, epoch: TaskEpoch, writer: Writer, stopwatch: Stopwatch
) -> Iterator[Listed]:
    """Write the records of sinks and the changes of stores, topic by topic; `stopwatch` is told how much that is."""
    partition = task.key.partition
    name = epoch_file_name(plan.incarnation, plan.generation, plan.epoch, task.key, plan.attempt)
    for topic, made, within in _tables(epoch):
        # Worked out even in a trial: a record may fail here as well.
        if plan.trial:
            continue
        table, partitions = made
        with timed("topics"):
            listed = writer.write(plan.application, topic.name, f"{name}{within}", table, partitions, partition)
        stopwatch.volume += Volume(written_records=len(table), written_bytes=sum(each.size for each in listed))
        yield from listed
    for store, rows in epoch.stores.items():
        changed = rows.changes()
        if changed is not None and not plan.trial:
            changelog = changelog_topic(plan.application, store)
            with timed("changelogs"):
                listed = writer.write(plan.application, changelog, name, changed, partition, partition)
            stopwatch.volume += Volume(changed_records=len(changed), changed_bytes=sum(each.size for each in listed))
            yield from listed


def _tables(epoch: TaskEpoch) -> Iterator[tuple[Topic, tuple[pa.Table, Int64s], str]]:
    """The topics, their records, and how the names of their files end. Records that are made later go part by part."""
    assert not epoch.more, "rows of an edge without a sink"
    for topic, parts in epoch.sinks.values():
        if any(len(part.rows) for part in parts):
            yield topic, _records(topic, parts), ""
    for topic, more in epoch.later:
        for number, part in enumerate(more, 2):
            if len(part.rows):
                yield topic, _records(topic, [part]), f"-{number}"


def _records(topic: Topic, parts: Sequence[Written]) -> tuple[pa.Table, Int64s]:
    """The records of all sinks that write a topic, in path order, and their partitions."""
    rows: Rows = concat([part.rows for part in parts])
    partitions = parts[0].partitions
    if len(parts) > 1:
        order = path_order([part.rows for part in parts])
        rows = rows.take(order)
        partitions = np.concatenate([part.partitions for part in parts])[order]
    schema = topic_schema(topic, rows.headers is not None)
    columns = [
        *rows.columns.values(),
        pa.array(rows.kind),
        pa.array(rows.timestamp),
        pa.array(rows.order),
        *([] if rows.headers is None else [rows.headers]),
    ]
    return pa.Table.from_arrays(columns, schema=schema), partitions


def durable(outcomes: list[TaskOutcome], writer: Writer, *, traced: bool) -> list[TaskOutcome]:
    """The outcomes of all tasks of a thread, once what they have written is durable.

    All of it at once, so the time that this takes is said to be of the last task.
    """
    stopwatch = Stopwatch(traced=traced)
    with stopwatch.tracing(), stopwatch.phase("write"):
        writer.sync()
    if outcomes and outcomes[-1].trouble is None:
        last = outcomes[-1]
        outcomes[-1] = replace(last, measured=stopwatch.added_at_the_end_to(last.measured))
    return outcomes
