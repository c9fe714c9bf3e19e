"""Errors that end a run, and the causes for which tasks stop or wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import HeadwaterError, shortened
from ..ir.topology import raw_name
from ..task_id import TaskKey

MOST_OF_A_RECORD = 2_000
"""The most characters of a record in a message. Its values are shortened further."""


MOST_NAMED = 20
"""The most records that one message names; it counts the others."""


@dataclass(frozen=True)
class FailedRecord:
    """A record that a step could not process.

    `value`: the record in JSON with shortened values. `step`: `file:line` in the YAML, empty if unknown. `held_at`:
    `file:line` of a step that had buffered the failing row and emitted it with this record; empty if the row is this
    record's own. `waited_at`: `file:line` of a join of streams that may have buffered the failing row; empty if none.
    """

    topic: str
    partition: int
    offset: int
    step: str
    value: str
    cause: str
    held_at: str = ""
    waited_at: str = ""

    @property
    def sentence(self) -> str:
        """`topologies/t.yml:7: record words[0]@3 cannot be processed: ...`."""
        where = f"{self.step}: " if self.step else ""
        named = f"{self.topic}[{self.partition}]@{self.offset}"
        if self.held_at:
            what = f"a row that was held back at {self.held_at}, and came out with record {named},"
        elif self.waited_at:
            what = f"record {named}, or a row that had waited in the join at {self.waited_at} and came out with it,"
        else:
            what = f"record {named}"
        return f"{where}{what} cannot be processed: {shortened(self.cause)}"


SKIPPING = "`on_error: skip` or `on_error: dead_letter` of the flow or the topic skips such records"
NO_STEP = (
    "the failing step is not known, as Spark SQL may compute several as one; so `on_error` of a flow has no effect, "
    "but `on_error: skip` or `on_error: dead_letter` of the topic skips such records"
)
NO_CHANGE = (
    "it is a change of a regrouped table or of a join by a foreign key: later changes depend on it, so it is never "
    "skipped, whatever `on_error` says"
)
HELD_BACK = (
    "`on_error` has no effect on buffered rows: without this record, they would fail with the next one; "
    "write an expression that cannot fail (`try_divide`), or put it before the step that buffers them"
)
MAY_HAVE_WAITED = (
    "`on_error` has no effect, as it may be a row that had waited, which would fail with the next record again; "
    "write an expression that cannot fail (`try_divide`), or put it before the join"
)
NO_SKIPPING = "`on_error` skips only records for which a step has raised an error"

ENDS_WORKER = (
    "whatever `on_error` says, a record that ends its worker is never skipped, as its other effects are unknown; "
    "have the function handle it, or filter such records in a step before it"
)


class RecordError(HeadwaterError):
    """Records that steps could not process. Nothing of their task's epoch was committed.

    `records`: the first of them, in order; `count`: of all in the epoch. `way_on`: how to skip them, or why they are
    never skipped.
    """

    def __init__(
        self, task: TaskKey, records: Sequence[FailedRecord], count: int | None = None, way_on: str = SKIPPING
    ) -> None:
        first, *others = records
        count = len(records) if count is None else count
        lines = [first.sentence, f"  record: {shortened(first.value, MOST_OF_A_RECORD)}"]
        lines += [f"  and {record.sentence}" for record in others]
        if count > len(records):
            lines.append(f"  and {count - len(records):,} more; {count:,} records of this epoch failed")
        super().__init__(
            "\n".join(lines),
            "nothing of this task's epoch is committed; fix the step or the data and run again; "
            f"`{_showing(first)}` shows all of the record; {way_on}",
        )
        self.task = task
        self.records = tuple(records)
        self.count = count
        self.way_on = way_on

    @property
    def first(self) -> FailedRecord:
        """The first of the records."""
        return self.records[0]


def _showing(record: FailedRecord) -> str:
    """The command that shows a record, also one that is in Kafka only."""
    if (raw := raw_name(record.topic)) is not None:
        where = f"--topic {raw.name} --partition {record.partition} --offset {record.offset}"
        return f"kafka-console-consumer {where} --max-messages 1"
    return f"headwater read {record.topic} --from {record.offset} --format json"


class RecordErrors(HeadwaterError):
    """Several tasks have stopped because of records of their own: `errors`, one for every task."""

    def __init__(self, errors: Sequence[RecordError]) -> None:
        super().__init__("\n".join(error.message for error in errors), errors[0].hint)
        self.errors = tuple(errors)
        self.way_on = errors[0].way_on


class DamagedAgainError(HeadwaterError):
    """The stores of a task were damaged again after each restore, or cannot be restored: `task`, `client`, `times`,
    `cause`. `way_out`: if the cause is outside of the stores.
    """

    def __init__(self, task: TaskKey, client: str, times: int, cause: str, way_out: str | None = None) -> None:
        if way_out is None:
            what = f"were damaged {times} times in a row on {client}, though they were restored each time"
        else:
            what = f"could not be restored {times} times in a row on {client}"
        super().__init__(
            f"the stores of task {task} of {task.application} {what}: {shortened(cause)}",
            way_out or f"check the disk and the memory of {client}, then run again: no commit is lost",
        )
        self.task = task
        self.client = client
        self.times = times
        self.cause = cause


class NoClientsError(HeadwaterError):
    """All clients of an application are gone, and no other one has joined. `seconds`: how long the run has waited."""

    def __init__(self, application: str, seconds: float) -> None:
        super().__init__(
            f"all clients of {application} are gone, and none has joined for {seconds:.0f} s",
            "find out why the cluster ends executors (mostly memory), then run again: it resumes from the last commit",
        )
        self.application = application
        self.seconds = seconds


class SharedStateError(HeadwaterError):
    """Two executors use one state directory without seeing each other's process: `clients`, `path`."""

    def __init__(self, application: str, clients: Sequence[str], path: str) -> None:
        super().__init__(
            f"{' and '.join(clients)} have one state directory, {path}, and do not see each other's processes",
            "give executors that run in containers a state_dir of their own each",
        )
        self.application = application
        self.clients = tuple(clients)
        self.path = path


class ClusterEndedError(HeadwaterError):
    """The whole cluster has ended. Uncommitted work is lost."""


class JobError(HeadwaterError):
    """An epoch's job failed for a cause that is no record. `hint`: the way out, None if unknown."""

    def __init__(self, application: str, subtopology: str, cause: str, hint: str | None = None) -> None:
        super().__init__(
            f"the epoch's job of {application}, subtopology {subtopology}, failed: {shortened(cause)}", hint
        )
        self.application = application
        self.subtopology = subtopology
        self.cause = cause


class EpochCutOffError(JobError, ClusterEndedError):
    """The cluster has ended in the middle of an epoch."""


# Why tasks wait or have stopped, as data. The status of a run contains it (`driver/status.py`), so later versions must
# be able to read it.

Reason = Literal[
    "stopped", "not_running", "silent", "starting", "unwritten", "paused", "restoring", "no_client", "behind"
]
"""Why a task or an application upstream still has unread records.

`stopped`: the task has stopped with an error. `not_running`: the application has no run. `silent`: its run writes no
status any more. `starting`: its newest run has written no status yet. `unwritten`: it has never run with the flow that
writes the topic. `paused`: it is paused. `restoring`: its tasks do not have their stores yet. `no_client`: no client
has its tasks. `behind`: none of these: its tasks are at work.
"""

LASTING: tuple[Reason, ...] = ("stopped", "not_running", "unwritten", "paused")
"""The reasons that do not end without an action of a user."""


@dataclass(frozen=True)
class Stop:
    """Why a task has stopped.

    If the cause is a record: its `topic`, `partition` and `offset`, and the `step` that cannot process it, as
    `file:line`, empty if unknown. `held_at`, `waited_at`: see `FailedRecord`. `never_left_out`: no `on_error` would
    skip the record.
    """

    cause: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    step: str = ""
    held_at: str = ""
    waited_at: str = ""
    never_left_out: bool = False

    @classmethod
    def from_error(cls, error: HeadwaterError) -> Stop:
        """The stop of a task by this error."""
        if not isinstance(error, RecordError):
            return cls(error.message.partition("\n")[0])
        first = error.first
        cause = shortened(first.cause).partition("\n")[0]
        return cls(
            cause,
            first.topic,
            first.partition,
            first.offset,
            first.step,
            first.held_at,
            first.waited_at,
            error.way_on not in (SKIPPING, NO_STEP),
        )

    @property
    def place(self) -> str:
        """`record words[0]@1 (topologies/t.yml:7)`; empty if the cause is no record."""
        if self.topic is None:
            return ""
        step = f" ({self.step})" if self.step else ""
        place = f"record {self.topic}[{self.partition}]@{self.offset}{step}"
        if self.held_at:
            return f"{place}, with which a row came out that was held back at {self.held_at}"
        if self.waited_at:
            return f"{place}, or at a row that had waited in the join at {self.waited_at} and came out with it"
        return place

    @property
    def sentence(self) -> str:
        """`has stopped at record words[0]@1 (topologies/t.yml:7): sum overflows bigint`."""
        return f"{self.place_sentence}: {self.cause}"

    @property
    def place_sentence(self) -> str:
        """`has stopped at record words[0]@1 (topologies/t.yml:7)`."""
        return f"has stopped at {self.place}" if self.place else "has stopped"


@dataclass(frozen=True)
class WaitsFor:
    """The cause for which a task waits. `subtopology`: None where the whole application is the cause. `partition`,
    `stop`: of a stopped task. `topic`: the one that is unwritten.
    """

    application: str
    reason: Reason
    subtopology: str | None = None
    partition: int | None = None
    stop: Stop | None = None
    topic: str | None = None

    @property
    def order(self) -> tuple[bool, str, str, int]:
        """Sort key: lasting causes first."""
        return self.reason not in LASTING, self.application, self.subtopology or "", self.partition or 0

    def sentence(self, tasks: Sequence[object], reader: str) -> str:
        """Which tasks of the application `reader` wait for what, why that does not continue, and the way out."""
        waits = f"{_listed(tasks)} {'waits' if len(tasks) == 1 else 'wait'} for {self._cause(reader)}"
        return "; ".join(filter(None, (waits, self.way_out)))

    def end_sentence(self, tasks: Sequence[object], reader: str) -> str:
        """That tasks of the application `reader` do not wait for it any more."""
        return f"{_listed(tasks)} {'does' if len(tasks) == 1 else 'do'} not wait for {self._subject(reader)} any more"

    @property
    def way_out(self) -> str:
        """What a user has to do so that the tasks continue; empty where the cause ends by itself."""
        restart = f"start the run of {self.application} again, and they continue"
        match self.reason:
            case "stopped" if self.stop is None or self.stop.topic is None:
                return f"remove the cause, {restart}"
            case "stopped" if self.stop is not None and (
                self.stop.held_at or self.stop.waited_at or self.stop.never_left_out
            ):
                return f"correct the step, {restart}"
            case "stopped":
                return f"correct the step or set `on_error`, {restart}"
            case "not_running" | "unwritten":
                return f"run {self.application}, and they continue"
            case "paused":
                return "`headwater resume` ends the pause, and they continue"
            case _:
                return ""

    def _subject(self, reader: str) -> str:
        """The name of the task, subtopology or application upstream. The waiting application is never named."""
        if self.subtopology is None:
            return self.application
        part = self.subtopology if self.application == reader else f"{self.application}/{self.subtopology}"
        return part if self.partition is None else f"task {self.partition} of {part}"

    def _cause(self, reader: str) -> str:
        """The task, subtopology or application upstream, and why it does not continue."""
        name, application = self._subject(reader), self.application
        match self.reason:
            case "stopped":
                return f"{name}, which {self._stopped(reader)}"
            case "not_running":
                return f"{application}, which has unread records and does not run"
            case "silent":
                return f"{application}, which has unread records and may not run any more: its driver writes nothing"
            case "starting":
                return f"{application}, which has unread records and has not started yet"
            case "unwritten":
                return f"{application}, which has not run yet with the flow that writes {self.topic}"
            case "paused":
                return f"{application}, which has unread records and is paused"
            case "restoring":
                return f"{name}, which has unread records, but not all of its stores yet"
            case "no_client":
                return f"{name}, which has unread records, but no client for all of its tasks"
            case "behind":
                return f"{name}, which has unread records"

    def _stopped(self, reader: str) -> str:
        """Why a task has stopped. The reader's own TaskFailed event has the cause already, so it is not repeated."""
        if self.stop is None:
            return "has stopped"
        return self.stop.place_sentence if self.application == reader else self.stop.sentence


@dataclass(frozen=True)
class TasksOfCause:
    """The ids of the tasks of an application that wait for the same cause."""

    cause: WaitsFor
    tasks: tuple[str, ...]

    as_list: ClassVar[bool] = True


MOST_TASKS = 10
"""The most tasks in a sentence."""


def _listed(tasks: Sequence[object]) -> str:
    """`task 1_0`, `tasks 1_0, 1_1 and 3 more`."""
    more = len(tasks) - MOST_TASKS
    names = ", ".join(map(str, tasks[:MOST_TASKS])) + (f" and {more:,} more" if more > 0 else "")
    return f"task {names}" if len(tasks) == 1 else f"tasks {names}"
