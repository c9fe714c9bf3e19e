"""Errors that end a run. Each has its facts in fields."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import HeadwaterError, shortened
from ..task_id import TaskKey

MOST_OF_A_RECORD = 2_000
"""The most characters of a record in a message. Each of its values is shorter."""


class RecordError(HeadwaterError):
    """A record that a step could not process. Nothing of its task's epoch was committed.

    `value` is the record in JSON with its long values shortened. `step`: its place `file:line` in the YAML, empty if it
    could not be found.
    """

    def __init__(
        self,
        *,
        task: TaskKey,
        topic: str,
        partition: int,
        offset: int,
        step: str,
        value: str,
        cause: str,
    ) -> None:
        where = f"{step}: " if step else ""
        super().__init__(
            f"{where}record {topic}[{partition}]@{offset} cannot be processed: {shortened(cause)}\n"
            f"  record: {shortened(value, MOST_OF_A_RECORD)}",
            "nothing of this task's epoch is committed; fix the step or the data and run again; "
            f"`headwater read {topic} --from {offset} --format json` shows all of the record",
        )
        self.task = task
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.step = step
        self.value = value
        self.cause = cause


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


class JobError(HeadwaterError):
    """An epoch's job failed, and no record was found as the cause. `hint`: the way out, if one is known."""

    def __init__(self, application: str, subtopology: str, cause: str, hint: str | None = None) -> None:
        super().__init__(
            f"the epoch's job of {application}, subtopology {subtopology}, failed: {shortened(cause)}", hint
        )
        self.application = application
        self.subtopology = subtopology
        self.cause = cause
