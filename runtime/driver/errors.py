"""Errors that end a run, and causes for which it waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import HeadwaterError, shortened
from ..task_id import TaskKey

# Errors that end a run. Each has its facts in fields.

MOST_OF_A_RECORD = 2_000
"""The most characters of a record in a message. Each of its values is shorter."""


MOST_NAMED = 20
"""The most records that one message names; of more it says how many there are."""


@dataclass(frozen=True)
class FailedRecord:
    """A record that a step could not process. `value`: the record in JSON with its long values shortened. `step`: its
    place `file:line` in the YAML, empty if it could not be found. `held_at`: the place of the step that has held the
    row back that fails, which came out with this record; empty if it is the record's own. `waited_at`: that of a join
    of streams where the row may have waited for a match, and come out with this record; empty if it cannot.
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


LEAVING_OUT = "`on_error: skip` or `on_error: dead_letter` of the flow or the topic goes on without such records"
NO_STEP = (
    "which step fails is not known, as Spark SQL may compute several as one; so `on_error` of a flow does not count, "
    "but `on_error: skip` or `on_error: dead_letter` of the topic goes on without such records"
)
NO_CHANGE = (
    "it is a change of a regrouped table or of a join by a foreign key: others depend on each of these, so none is "
    "left out, whatever `on_error` says"
)
HELD_BACK = (
    "`on_error` does not count for rows that were held back: without this record, they would fail with the next one; "
    "write an expression that cannot fail (`try_divide`), or put it before the step that holds them back"
)
MAY_HAVE_WAITED = (
    "`on_error` does not count, as it may be a row that had waited, which would fail with the next record again; "
    "write an expression that cannot fail (`try_divide`), or put it before the join"
)
NO_LEAVING_OUT = "`on_error` leaves out only records of which a step says that it cannot process them"

ENDS_WORKER = (
    "whatever `on_error` says, a record that ends its worker is not left out, as nobody can tell what else it would "
    "do; have the function cope with it, or filter such records in a step before it"
)


class RecordError(HeadwaterError):
    """Records that steps could not process. Nothing of their task's epoch was committed.

    `records`: the first of them, in order; `count`: how many were found in the epoch. `way_on`: how to go on without
    them, if at all.
    """

    def __init__(
        self, task: TaskKey, records: Sequence[FailedRecord], count: int | None = None, way_on: str = LEAVING_OUT
    ) -> None:
        first, *others = records
        count = len(records) if count is None else count
        lines = [first.sentence, f"  record: {shortened(first.value, MOST_OF_A_RECORD)}"]
        lines += [f"  and {each.sentence}" for each in others]
        if count > len(records):
            lines.append(f"  and {count - len(records):,} more; {count:,} records of this epoch failed")
        super().__init__(
            "\n".join(lines),
            "nothing of this task's epoch is committed; fix the step or the data and run again; "
            f"`headwater read {first.topic} --from {first.offset} --format json` shows all of the record; {way_on}",
        )
        self.task = task
        self.records = tuple(records)
        self.count = count
        self.way_on = way_on

    @property
    def first(self) -> FailedRecord:
        """The first of the records."""
        return self.records[0]


class RecordErrors(HeadwaterError):
    """Several tasks have stopped, each because of records of its own: `errors`."""

    def __init__(self, errors: Sequence[RecordError]) -> None:
        super().__init__("\n".join(error.message for error in errors), errors[0].hint)
        self.errors = tuple(errors)
        self.way_on = errors[0].way_on


class DamagedAgainError(HeadwaterError):
    """The stores of a task are damaged whenever they have been restored, or cannot be restored: `task`, `client`,
    `times`, `cause`. `way_out`: if the cause is not in the stores.
    """

    def __init__(self, task: TaskKey, client: str, times: int, cause: str, way_out: str | None = None) -> None:
        if way_out is None:
            what = f"were damaged {times} times in a row on {client}, though they were restored each time"
        else:
            what = f"could not be restored {times} times in a row on {client}"
        super().__init__(
            f"the stores of task {task} of {task.application} {what}: {shortened(cause)}",
            way_out
            or f"look at the disk and the memory of {client}, then run again: nothing that is committed is lost",
        )
        self.task = task
        self.client = client
        self.times = times
        self.cause = cause


class NoClientsError(HeadwaterError):
    """All clients of an application are gone, and no other one has come. `seconds`: how long it has waited."""

    def __init__(self, application: str, seconds: float) -> None:
        super().__init__(
            f"all clients of {application} are gone, and none has come for {seconds:.0f} s",
            "look why the cluster ends executors (memory, above all), then run again: it goes on from the last commit",
        )
        self.application = application
        self.seconds = seconds


class SharedStateError(HeadwaterError):
    """Two executors use the same state directory, and neither knows of the other: `clients`, `path`."""

    def __init__(self, application: str, clients: Sequence[str], path: str) -> None:
        super().__init__(
            f"{' and '.join(clients)} have one state directory, {path}, and do not see each other's processes",
            "give executors that run in containers a state_dir of their own each",
        )
        self.application = application
        self.clients = tuple(clients)
        self.path = path


class ClusterEndedError(HeadwaterError):
    """What executes the epochs has ended as a whole, with everything that was not committed."""


class JobError(HeadwaterError):
    """An epoch's job failed, and no record was found as the cause. `hint`: the way out, if one is known."""

    def __init__(self, application: str, subtopology: str, cause: str, hint: str | None = None) -> None:
        super().__init__(
            f"the epoch's job of {application}, subtopology {subtopology}, failed: {shortened(cause)}", hint
        )
        self.application = application
        self.subtopology = subtopology
        self.cause = cause


class EpochCutOffError(JobError, ClusterEndedError):
    """An epoch was not finished, because the cluster has ended."""


# What a task waits for that has records to take and takes none, and why a task has stopped: as data.
#
# Both are in the status of a run (`driver/status.py`), so a later version must be able to read them.

Reason = Literal[
    "stopped", "not_running", "silent", "starting", "unwritten", "paused", "restoring", "no_client", "behind"
]
"""Why somebody who has records to take is not done with them.

`stopped`: a task has stopped by an error of its own. `not_running`: the application has no run. `silent`: its run
writes no status any more. `starting`: the newest run of it has told nothing yet. `unwritten`: it has never run with
what writes the topic. `paused`: somebody has paused it. `restoring`: its tasks do not have their stores yet.
`no_client`: no client has its tasks. `behind`: none of this, so its tasks are at work, and not done yet.
"""

LASTING: tuple[Reason, ...] = ("stopped", "not_running", "unwritten", "paused")
"""The reasons that somebody has to do something about."""


@dataclass(frozen=True)
class Stop:
    """Why a task has stopped: `cause`. If a record is the reason, its place, and the step that cannot process it, as
    `file:line`; empty where that is not known. `held_at`, `waited_at`: see `FailedRecord`.
    `never_left_out`: whether no `on_error` would leave the record out.
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
    def of(cls, error: HeadwaterError) -> Stop:
        """The facts of an error that has stopped a task."""
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
            error.way_on not in (LEAVING_OUT, NO_STEP),
        )

    @property
    def place(self) -> str:
        """`record words[0]@1 (topologies/t.yml:7)`; empty if no record is the reason."""
        if self.topic is None:
            return ""
        step = f" ({self.step})" if self.step else ""
        place = f"record {self.topic}[{self.partition}]@{self.offset}{step}"
        if self.held_at:
            return f"{place}, with which a row came out that was held back at {self.held_at}"
        if self.waited_at:
            return f"{place}, or at a row that had waited in the join at {self.waited_at} and came out with it"
        return place


@dataclass(frozen=True)
class WaitsFor:
    """Whom a task waits for. `subtopology`: None where the reason is one of the whole application. `partition`, `stop`:
    of a task that has stopped. `topic`: that is unwritten.
    """

    application: str
    reason: Reason
    subtopology: str | None = None
    partition: int | None = None
    stop: Stop | None = None
    topic: str | None = None

    @property
    def order(self) -> tuple[bool, str, str, int]:
        """Those first that do not end by themselves."""
        return self.reason not in LASTING, self.application, self.subtopology or "", self.partition or 0


@dataclass(frozen=True)
class TasksOfCause:
    """The ids of the tasks of an application that wait for the same."""

    cause: WaitsFor
    tasks: tuple[str, ...]

    as_list: ClassVar[bool] = True
