"""A stage of an epoch's job in a worker, and its writes to the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from ...errors import UnavailableError
from ..dataclass_json import from_json, to_json
from ..ir.topology import GlobalTable, Store, Topic
from ..log.commit.records import TaskCommit
from ..log.errors import RangeMissingError, RecordsTooLargeError
from ..log.log import Listed, Writer, epoch_file_name
from ..log.ranges import RangeReader
from ..records.arrays import Int64s
from ..records.schema import changelog_topic, topic_schema
from ..state.store import StateStore
from ..tasks.errors import RecordsMissingError, TaskCorruptedError, TaskMigratedError
from ..tasks.measured import Measured, TaskOutcome, Trouble, Volume
from ..tasks.plan import EpochPlan, TaskPlan
from ..timed_parts import now, timed
from .execution.node import Edges, RowsFailedError, TaskEpoch, Written
from .execution.order.origins import Origins
from .execution.order.partition_group import PassedTime, TakenRecords, TimestampError
from .execution.processing.together import together
from .execution.rows import Rows, concat, path_order
from .execution.source import take, take_bare
from .failed_stage import (
    StepError,
    TooLargeError,
    counted,
    is_too_large,
    letters_of,
    named_step,
    pieces_of,
    volume_of,
    write_letters,
)
from .numbering import Numbering, reject_touched
from .operators.kafka import Produce
from .operators.operator import Flow, Node
from .operators.process import Process
from .operators.topics import Source
from .pipe import pipe_schema, receive, send, send_end
from .stopwatch import Stopwatch, bytes_taken, places_taken

if TYPE_CHECKING:
    from .execution.kafka import KafkaAccess

# The writes of a stage to the log: records of sinks, and changes of stores.


def write_records(
    plan: EpochPlan, task: TaskPlan, epoch: TaskEpoch, writer: Writer, stopwatch: Stopwatch
) -> Iterator[Listed]:
    """Write the records of sinks and the changes of stores, topic by topic. Adds the volume to `stopwatch`.

    A trial writes nothing, but still computes the records of sinks.
    """
    partition = task.key.partition
    name = epoch_file_name(plan.incarnation, plan.generation, plan.epoch, task.key, plan.attempt)
    for topic, made, within in _tables(epoch):
        # Computed even in a trial, because a record may fail here.
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
    """(Topic, (its records, their partitions), suffix of the file name). Lazy records are yielded part by part."""
    assert not epoch.more, "rows of an edge without a sink"
    for topic, parts in epoch.sinks.values():
        if any(len(part.rows) for part in parts):
            yield topic, _records(topic, parts), ""
    for topic, more in epoch.later:
        for number, part in enumerate(more, 2):
            if len(part.rows):
                yield topic, _records(topic, [part]), f"-{number}"


def _records(topic: Topic, parts: Sequence[Written]) -> tuple[pa.Table, Int64s]:
    """(The records of all sinks of a topic, in path order; their partitions)."""
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
    """Sync the writer. Returns the outcomes of a thread's tasks, which are then durable.

    One sync serves all tasks. Its time counts for the last task.
    """
    stopwatch = Stopwatch(traced=traced)
    with stopwatch.tracing(), stopwatch.phase("write"):
        writer.sync()
    if outcomes and outcomes[-1].trouble is None:
        last = outcomes[-1]
        outcomes[-1] = replace(last, measured=stopwatch.added_at_the_end_to(last.measured))
    return outcomes


# A Python stage of an epoch's job: operators that run one after the other on the rows of one task at a time.
#
# The first stage reads the log. Its input has the threads of the client that it runs. Later stages get rows through the
# pipe and wait for the end of a task, so that operators see all rows of its epoch at once. (These are the records of a
# commit interval, limited by `max_records` and `max_bytes`.) The control row of a task carries its outcome so far. The
# last stage sends it to the driver. A task with a damaged store passes the later stages as an outcome without rows. The
# other tasks continue.

OUTCOME = pa.schema([("outcome", pa.string())])
"""The columns of the last stage's result. It has one row for each task: its TaskOutcome as JSON."""


class Worker(Protocol):
    """The resources of a running stage: the plan of the epoch, the log, and the stores of the plan.

    `log`: for reading, also of records in Kafka. `writer`: writes to the log. Its writes are durable when the stage
    ends. `kafka`: for operators on topics in Kafka.
    """

    plan: EpochPlan
    log: RangeReader
    writer: Writer
    kafka: KafkaAccess | None

    def fence(self) -> None:
        """Raise TaskMigratedError if the plan is for another client, or for an older assignment."""

    def store(self, task: TaskPlan, store: Store) -> StateStore:
        """The task's partition of a store, restored up to its planned position."""

    def global_table(self, table: GlobalTable) -> StateStore:
        """A global table, restored up to its planned position: rows of `table.store` by encoded key."""


@dataclass(frozen=True)
class _Work:
    """A task on its way through a stage: its outcome so far, and its rows. `numbering`: of a numbered pipe.

    `origins`: of the records, if an operator of the stage needs them.
    """

    outcome: TaskOutcome
    edges: Edges = field(default_factory=dict)
    numbering: Numbering | None = None
    origins: Origins | None = None

    def run(self, node: Node, epoch: TaskEpoch, *, skips: bool) -> tuple[int, ...]:
        """Run an operator on the rows. Returns the numbers of the records that it cannot process, which are skipped.

        Without `skips`, no record may be skipped: raises RowsFailedError.
        """
        if self.numbering is None:
            node.run(self.edges, epoch)
            return ()
        try:
            self.numbering.run(node, self.edges, epoch)
            return ()
        except RowsFailedError as error:
            if not skips:
                raise
            failed = self.numbering.skip(error.records, self.edges)
            self.numbering.run(node, self.edges, epoch)
            return failed


@dataclass(frozen=True)
class Stage:
    """A function on an iterator of batches, for Spark's `mapInArrow`.

    `reads`: the input edges in the pipe. The first stage has none; its input has a column `thread`. `yields`: the
    output edges. The last stage has none; it yields OUTCOME rows. `open_worker`: called in the process that runs the
    stage. `numbered`: whether rows travel with the numbers of their records (`pipe.py`). `skips_records`: whether
    records are skipped if an expression fails for them.
    """

    nodes: tuple[Node, ...]
    open_worker: Callable[[], AbstractContextManager[Worker]]
    reads: Mapping[str, Flow] = field(default_factory=dict)
    yields: Mapping[str, Flow] = field(default_factory=dict)
    numbered: bool = False
    skips_records: bool = False

    @cached_property
    def _operators(self) -> tuple[Node, ...]:
        """The operators as they run: processors that share a store are one operator."""
        return together(self.nodes)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the stage's result."""
        return pipe_schema(self.yields, self.numbered) if self.yields else OUTCOME

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks of the batches.

        Raises StepError, TouchedRecordError, LogError. Only in a trial: TaskMigratedError, TaskCorruptedError,
        UnavailableError.
        """
        with self.open_worker() as worker:
            works = self._later(batches, worker) if self.reads else self._first(batches, worker)
            if self.yields:
                for work in works:
                    yield from self._sent(work, worker)
                worker.writer.sync()
                return
            outcomes = durable([work.outcome for work in works], worker.writer, traced=worker.plan.traced)
            if outcomes:
                said = pa.array([to_json(each) for each in outcomes], pa.string())
                yield pa.RecordBatch.from_arrays([said], schema=OUTCOME)

    def _sent(self, work: _Work, worker: Worker) -> Iterator[pa.RecordBatch]:
        """A task and its rows, for the next stage."""
        said = to_json(work.outcome)
        if work.outcome.trouble is not None:
            yield send_end(self.yields, said, self.numbered)
            return
        numbers = work.numbering.numbers() if work.numbering is not None else None
        yield from send(work.edges, self.yields, said, worker.plan.now, numbers)

    def _first(self, batches: Iterator[pa.RecordBatch], worker: Worker) -> Iterator[_Work]:
        for batch in batches:
            for thread in batch.column(batch.schema.get_field_index("thread")).to_pylist():
                for task in worker.plan.threads[thread]:
                    yield self._done(task, None, worker)

    def _later(self, batches: Iterator[pa.RecordBatch], worker: Worker) -> Iterator[_Work]:
        plans = worker.plan.tasks
        ready = now()
        for arrived in receive(batches, self.reads, self.numbered):
            before = from_json(TaskOutcome, arrived.end)
            if before.commit is None:
                yield _Work(before)
            else:
                # Time in which this stage worked on another task is no waiting time.
                waited = now() - max(ready, before.measured.handed_over)
                reject_touched(arrived.failed)
                outcome = replace(before, failed=(*before.failed, *arrived.failed))
                numbering = None if arrived.numbers is None else Numbering(arrived.numbers)
                task = plans[before.key(worker.plan.application)]
                origins = self._origins_again(task, before.commit.records, numbering, worker)
                yield self._done(task, _Work(outcome, arrived.edges, numbering, origins), worker, waited)
            ready = now()

    def _done(self, task: TaskPlan, arrived: _Work | None, worker: Worker, waited: float = 0.0) -> _Work:
        """Run a task in this stage: its outcome and its rows. An error of its stores becomes its outcome; other errors
        end the job.

        `arrived`: its outcome and rows from the stages before; None in the first stage. `waited`: how long the stage
        waited for its rows, seconds.
        """
        stopwatch = Stopwatch(waited, traced=worker.plan.traced)
        work = arrived
        try:
            with stopwatch.tracing():
                worker.fence()
                work = work or self._taken(task, worker, stopwatch)
                commit, failed = self._run(task, work, worker, stopwatch)
            measured = stopwatch.added_to(work.outcome.measured)
            failed = (*work.outcome.failed, *failed)
            return replace(work, outcome=replace(work.outcome, commit=commit, measured=measured, failed=failed))
        except (TaskCorruptedError, TaskMigratedError, UnavailableError) as error:
            if worker.plan.trial:  # outcomes of a trial are not read
                raise
            return _Work(TaskOutcome.troubled(task.key, Trouble.from_error(error)))
        except MemoryError as error:
            done = work.outcome.commit if work is not None else None
            places = () if done is None else places_taken(task, done.positions)
            if done is None or not places:
                raise
            raise RecordsTooLargeError(places, bytes_taken(task, done.positions), error) from error
        except Exception as error:
            if work is None or work.outcome.commit is None or not is_too_large(error):
                raise
            raise TooLargeError(work.outcome.commit.records, error) from error

    def _taken(self, task: TaskPlan, worker: Worker, stopwatch: Stopwatch) -> _Work:
        """The records that a task takes. Raises RecordsMissingError."""
        sources = [node for node in self.nodes if isinstance(node, Source)]
        try:
            with stopwatch.phase("read"):
                taken, edges = take(task, sources, worker.log)
        except TimestampError as error:
            at = next((str(node.at) for node in sources if node.topic.name == error.record.topic), "")
            first = worker.plan.first_number(task.key)
            numbers = [first + number for number in error.numbers]
            raise StepError("Source", at, str(task.key), error, numbers, by_itself=True) from error
        except RangeMissingError as error:
            raise RecordsMissingError(error.message, error.path, way_out=error.hint) from error
        with stopwatch.phase("write"):
            letters = self._letters(task, taken, sources, worker, stopwatch)
        commit = TaskCommit(
            task.key.subtopology,
            task.key.partition,
            taken.positions,
            taken.stream_time,
            clocks=task.clocks,
            scheduled=task.scheduled,
            segments=letters,
            dropped=counted(taken.skipped.values()),
            records=len(taken),
        )
        stopwatch.volume += Volume(read_bytes=bytes_taken(task, taken.positions))
        needed = any(isinstance(node, Process | Produce) for node in self.nodes)
        origins = Origins.of(taken, task.stream_time) if needed else None
        if worker.plan.trial:
            first = worker.plan.first_number(task.key)
            edges = {name: replace(rows, order=rows.path[0] + first) for name, rows in edges.items()}
            origins = origins and replace(origins, first=first)
        numbering = Numbering.of_taken(len(taken)) if self.numbered else None
        outcome = replace(TaskOutcome.done(commit, Measured(taken=taken.size)), held_by=taken.held_by, full=taken.full)
        return _Work(outcome, edges, numbering, origins)

    def _origins_again(self, task: TaskPlan, count: int, numbering: Numbering | None, worker: Worker) -> Origins | None:
        """The origins of a task's `count` records, read again: the pipe carries only the numbers of the records."""
        sources = next((node.sources for node in self.nodes if isinstance(node, Process)), None)
        if sources is None or numbering is None:
            return None
        taken = take_bare(task, sources, worker.log, count)
        first = worker.plan.first_number(task.key) if worker.plan.trial else None
        return replace(Origins.of(taken, task.stream_time), numbers=numbering.records, first=first)

    def _letters(
        self, task: TaskPlan, taken: TakenRecords, sources: Sequence[Source], worker: Worker, stopwatch: Stopwatch
    ) -> tuple[Listed, ...]:
        """Write the dead letters of the records that the plan skips."""
        if worker.plan.trial or not taken.skipped:
            return ()
        letters = letters_of(task, taken, taken.skipped, [source.topic for source in sources], worker.log)
        topics = {source.topic.name: source.dead_letter for source in sources}
        listed = tuple(write_letters(worker.plan, task.key, letters, topics, worker.writer))
        stopwatch.volume += volume_of(listed)
        return listed

    def _run(
        self, task: TaskPlan, work: _Work, worker: Worker, stopwatch: Stopwatch
    ) -> tuple[TaskCommit, tuple[int, ...]]:
        """Run the operators, and write their records. Returns (the task's commit, the numbers of skipped records).

        The commit lists the written files. Records are skipped if an expression fails for them.
        """
        commit = work.outcome.commit
        assert commit is not None
        epoch = TaskEpoch(
            task.key.partition,
            worker.plan.now,
            dict(commit.clocks),
            lambda store: stopwatch.opened(store.name, lambda: worker.store(task, store)),
            lambda table: stopwatch.opened(table.store.name, lambda: worker.global_table(table)),
            task.clocks,
            work.origins,
            commit.scheduled,
            str(task.key),
            _passed(task, work.edges, worker.plan),
            worker.plan.trial,
            worker.kafka,
            task.stream_time,
            commit.positions,
            worker.plan.results,
            worker.plan.targets,
            task.begins,
            task.whole and task.is_taken_by(commit.positions),
        )
        if epoch.passed is not None and work.numbering is not None:
            work.numbering.touch_all()  # rows that are released as time passes belong to no record that can be skipped
        skips = self.skips_records and not worker.plan.trial
        failed = self._run_nodes(task, work, epoch, stopwatch, skips=skips)
        with stopwatch.phase("write"):
            written = tuple(write_records(worker.plan, task, epoch, worker.writer, stopwatch))
        done = replace(
            commit,
            stream_time=commit.stream_time if epoch.timed is None else epoch.timed,
            clocks=epoch.clocks,
            scheduled=epoch.scheduled,
            segments=(*commit.segments, *written),
            globals_={**commit.globals_, **{table: _seen(worker.plan, table) for table in epoch.global_tables}},
            dropped=dict(epoch.dropped + Counter(commit.dropped)),
            applied={**commit.applied, **{name: store.position for name, store in epoch.stores.items()}},
        )
        return done, failed

    def _run_nodes(
        self, task: TaskPlan, work: _Work, epoch: TaskEpoch, stopwatch: Stopwatch, *, skips: bool
    ) -> tuple[int, ...]:
        name = str(task.key)
        failed: list[int] = []
        for node in self._operators:
            more, later = {*epoch.more}, len(epoch.later)
            with stopwatch.phase("operators"), timed(_named(node)), named_step(node, name):
                failed += work.run(node, epoch, skips=skips)
            # Lazy rows may fail while they are written. That is still an error of this operator.
            for edge in epoch.more.keys() - more:
                epoch.more[edge] = pieces_of(node, name, epoch.more[edge])
            epoch.later[later:] = [(topic, pieces_of(node, name, parts)) for topic, parts in epoch.later[later:]]
        return tuple(failed)


def _passed(task: TaskPlan, edges: Edges, plan: EpochPlan) -> PassedTime | None:
    """The time that passes for the operators of a stage, after its input rows. None if no time passes."""
    if not task.time_passes:
        return None
    level = max((int(rows.path[0].max(initial=0)) for rows in edges.values()), default=0)
    return PassedTime(task.stream_time, level, plan.first_number(task.key) if plan.trial else task.stream_time)


def _named(node: Node) -> str:
    """An operator with the location of its step, as a trace shows it."""
    return f"{type(node).__name__} {node.at}".rstrip()


def _seen(plan: EpochPlan, table: str) -> dict[int, int]:
    """The position of a global table in this epoch, by partition: the sum over its lanes."""
    return {partition: sum(lanes.values()) for partition, lanes in plan.pinned(table).items()}
