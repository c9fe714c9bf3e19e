"""A Python stage of an epoch's job: operators that run one after the other on the rows of one task at a time.

The first stage reads the log; its input says which threads of the client it runs. Later stages get rows through the
pipe and wait for a task's end, so that operators see all rows of its epoch at once (the records of a commit interval,
bounded by `max_records`). The control row of a task carries its outcome so far; the last stage gives it to the driver.
A task with a damaged store passes the later stages as an outcome without rows, and the other tasks go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ...errors import HeadwaterError
from ..dataclass_json import from_json, to_json
from ..log.commit_records import Listed, TaskCommit
from ..log.log import Log, epoch_file_name
from ..operators.aggregates.sums import SumOverflowError
from ..operators.declarations import Flow
from ..operators.node import Edges, Node
from ..operators.order.partition_group import NegativeTimestampError
from ..operators.rows import Rows, concat, path_order
from ..operators.source import Source, take
from ..operators.task_epoch import TaskEpoch, Written
from ..records.arrays import Int64s
from ..records.schema import changelog_topic, topic_schema
from ..state.store import StateStore
from ..tasks.errors import TaskCorruptedError, TaskMigratedError
from ..tasks.outcome import TaskOutcome, Trouble
from ..tasks.plan import EpochPlan, TaskPlan
from ..topology import GlobalTable, Store, Topic
from .pipe import pipe_schema, receive, send, send_end

OUTCOME = pa.schema([("outcome", pa.string())])
"""The columns of the last stage's result: one row for each task, the JSON of its TaskOutcome."""


class StepError(HeadwaterError):
    """A step could not process the records of a task. `step`: the operator's name, `at`: its place in the YAML."""

    def __init__(self, step: str, at: str, task: str, cause: Exception) -> None:
        super().__init__(f"{at or step}: {cause}")
        self.step = step
        self.at = at
        self.task = task
        self.cause = cause


class Worker(Protocol):
    """What a stage has where it runs: the plan of the epoch, and the opened log and stores of the plan."""

    plan: EpochPlan
    log: Log

    def refuse_others(self) -> None:
        """Raise TaskMigratedError where the plan is for another client than this one, or for an older assignment."""

    def store(self, task: TaskPlan, store: Store) -> StateStore:
        """The task's partition of a store, caught up to its planned position."""

    def global_table(self, table: GlobalTable) -> StateStore:
        """A global table, caught up to its planned position: rows of `table.store` by encoded key."""


@dataclass(frozen=True)
class Stage:
    """Callable on an iterator of batches, for `mapInArrow`.

    `reads`: edges that come through the pipe; none in the first stage, whose input has a column `thread`. `yields`:
    edges that go on; none in the last stage, which yields OUTCOME rows. `open_worker` is called where the stage runs.
    """

    nodes: tuple[Node, ...]
    open_worker: Callable[[], AbstractContextManager[Worker]]
    reads: Mapping[str, Flow] = field(default_factory=dict)
    yields: Mapping[str, Flow] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the stage's result."""
        return pipe_schema(self.yields) if self.yields else OUTCOME

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks of the batches.

        Raises StepError, LogError. Only in a trial: TaskMigratedError, TaskCorruptedError.
        """
        with self.open_worker() as worker:
            for outcome, edges in self._later(batches, worker) if self.reads else self._first(batches, worker):
                said = to_json(outcome)
                if not self.yields:
                    yield pa.RecordBatch.from_arrays([pa.array([said], pa.string())], schema=OUTCOME)
                elif outcome.trouble is None:
                    yield from send(edges, self.yields, said, worker.plan.now)
                else:
                    yield send_end(self.yields, said)

    def _first(self, batches: Iterator[pa.RecordBatch], worker: Worker) -> Iterator[tuple[TaskOutcome, Edges]]:
        for batch in batches:
            for thread in batch.column(batch.schema.get_field_index("thread")).to_pylist():
                for task in worker.plan.threads[thread]:
                    yield self._outcome(task, None, worker)

    def _later(self, batches: Iterator[pa.RecordBatch], worker: Worker) -> Iterator[tuple[TaskOutcome, Edges]]:
        plans = worker.plan.tasks
        for arrived in receive(batches, self.reads):
            before = from_json(TaskOutcome, arrived.end)
            if (commit := before.commit) is None:
                yield before, {}
            else:
                task = plans[before.key(worker.plan.application)]
                yield self._outcome(task, (commit, arrived.edges), worker)

    def _outcome(
        self, task: TaskPlan, arrived: tuple[TaskCommit, Edges] | None, worker: Worker
    ) -> tuple[TaskOutcome, Edges]:
        """What a task comes to here, and its rows. An error of its stores is its own; any other ends the job.

        `arrived`: what it has come to in the stages before; None in the first one.
        """
        try:
            worker.refuse_others()
            commit, edges = arrived or self._taken(task, worker)
            return TaskOutcome.done(self._run(task, commit, edges, worker)), edges
        except (TaskCorruptedError, TaskMigratedError) as error:
            if worker.plan.trial:  # nobody reads the outcomes of a trial
                raise
            return TaskOutcome.troubled(task.key, Trouble.of(error)), {}

    def _taken(self, task: TaskPlan, worker: Worker) -> tuple[TaskCommit, Edges]:
        """The records that a task takes."""
        sources = [node for node in self.nodes if isinstance(node, Source)]
        try:
            taken, edges = take(task, sources, worker.log)
        except NegativeTimestampError as error:
            at = next((str(node.at) for node in sources if node.topic.name == error.record.topic), "")
            raise StepError("Source", at, str(task.key), error) from error
        commit = TaskCommit(
            task.key.subtopology,
            task.key.partition,
            taken.positions,
            taken.stream_time,
            clocks=task.clocks,
            records=len(taken),
        )
        return commit, _numbered(edges) if worker.plan.trial else edges

    def _run(self, task: TaskPlan, commit: TaskCommit, edges: Edges, worker: Worker) -> TaskCommit:
        """Run the operators, write the records that they make, and list these in the task's commit."""
        epoch = TaskEpoch(
            task.key.partition,
            worker.plan.now,
            commit.clocks,
            lambda store: worker.store(task, store),
            worker.global_table,
        )
        name = str(task.key)
        for node in self.nodes:
            try:
                node.run(edges, epoch)
            except HeadwaterError as error:
                if not isinstance(error, SumOverflowError):  # errors of a store or of the log keep their own type
                    raise
                raise StepError(type(node).__name__, str(node.at), name, error) from error
            except (OSError, MemoryError):  # so do errors of the machine
                raise
            except Exception as error:
                raise StepError(type(node).__name__, str(node.at), name, error) from error
        return replace(
            commit,
            clocks=epoch.clocks,
            segments=(*commit.segments, *_write(task, epoch, worker)),
            globals_={**commit.globals_, **{table: _seen(worker.plan, table) for table in epoch.global_tables}},
            dropped=dict(epoch.dropped + Counter(commit.dropped)),
            applied={**commit.applied, **{name: store.position for name, store in epoch.stores.items()}},
        )


def _numbered(edges: Edges) -> Edges:
    """Rows with the number of their record instead of its `_order`, so that a row that fails names its record.

    Operators only pass `_order` on. It is used when records are written, which is not done here.
    """
    return {name: replace(rows, order=rows.path[0]) for name, rows in edges.items()}


def _seen(plan: EpochPlan, table: str) -> dict[int, int]:
    """The position of a global table in this epoch, by partition: the sum over its lanes."""
    return {partition: sum(lanes.values()) for partition, lanes in plan.pinned(table).items()}


def _write(task: TaskPlan, epoch: TaskEpoch, worker: Worker) -> Iterator[Listed]:
    """Write the records of sinks and the changes of stores, topic by topic."""
    plan, partition = worker.plan, task.key.partition
    name = epoch_file_name(plan.incarnation, plan.generation, plan.epoch, task.key, plan.attempt)
    for topic, parts in epoch.sinks.values():
        if any(len(part.rows) for part in parts):
            # Worked out even in a trial: a record may fail here as well.
            table, partitions = _records(topic, parts)
            if plan.trial:
                continue
            yield from worker.log.write(plan.application, topic.name, name, table, partitions, partition)
    for store, rows in epoch.stores.items():
        changed = rows.changes()
        if changed is not None and not plan.trial:
            changelog = changelog_topic(plan.application, store)
            yield from worker.log.write(plan.application, changelog, name, changed, partition, partition)


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
