"""Events of a run: what has happened, as data that says itself.

Every event has its sentence, its level, its fields in the JSON log and its place on a terminal, so a new event is one
class here, in `client_events.py` or in `service_events.py`. `event_lines.py` writes events as lines,
`cli/printing/progress.py` shows them on a terminal, and `results.py` has what the results of a run contain. Counts of
dropped records are in the commits of tasks.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from ...readable_text import counted, first_of, moment
from ..task_id import TaskId
from .errors import WaitsFor

if TYPE_CHECKING:  # printing events does not load the log
    from .epoch_reports import EpochTrace
    from .status import RunStatus

Level = Literal["info", "warning", "error"]

OnTerminal = Literal["never", "after_start", "always"]
"""Whether a terminal prints the event above its table: `never`, because the table shows it, or only for programs;
`after_start`, because the first one belongs to every start.
"""

RUNNING = "running"
"""The note of an application whose epochs are committed."""


@dataclass(frozen=True)
class Event(ABC):
    """Something that has happened to an application.

    A class names its `level` if that is not `info`, and its place on a `terminal`. `logged`: whether logs have a line
    of it; a status is a table of numbers, once a second, and traces are in a file. `needs_run`: whether the application
    runs; external topics are named like an application, but do not.
    """

    application: str

    usual_level: ClassVar[Level]
    on_terminal: ClassVar[OnTerminal]
    logged: ClassVar[bool]
    needs_run: ClassVar[bool]

    def __init_subclass__(
        cls, level: Level = "info", terminal: OnTerminal = "never", logged: bool = True, needs_run: bool = True
    ) -> None:
        cls.usual_level, cls.on_terminal, cls.logged, cls.needs_run = level, terminal, logged, needs_run

    @property
    @abstractmethod
    def said(self) -> str:
        """What has happened to its subject. Further lines are details."""

    @property
    def subject(self) -> str:
        """What the sentence is about; empty if `said` names it."""
        return self.application

    @property
    def text(self) -> str:
        """The event as a sentence."""
        return f"{self.subject}: {self.said}" if self.subject else self.said

    @property
    def level(self) -> Level:
        """The level of this event."""
        return self.usual_level

    @property
    def note(self) -> str | None:
        """What the application does from now on, in a few words; None: as before."""
        return None

    @classmethod
    def name(cls) -> str:
        """`EpochCommitted` -> `epoch_committed`."""
        return re.sub(r"(?<=.)([A-Z])", r"_\1", cls.__name__).lower()

    @property
    def values(self) -> dict[str, Any]:
        """Its fields without the application."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "application"}


class Observer(Protocol):
    """Observes a run. It is called from the threads of loops and must not block."""

    def on(self, event: Event) -> None:
        """Handle an event."""


class Observers:
    """Several observers as one. None of them: an observer that ignores all events."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def on(self, event: Event) -> None:
        """Pass an event to all observers in order."""
        for observer in self._observers:
            observer.on(event)


# The course of an application.


@dataclass(frozen=True)
class ApplicationStarted(Event):
    """The loop of an application starts, with its generation and tasks. `restored`: tasks with state."""

    generation: int
    tasks: int
    restored: int

    note = RUNNING

    @property
    def said(self) -> str:
        restored = f", {self.restored} of them with state" if self.restored else ""
        return f"started, generation {self.generation}, {counted(self.tasks, 'task')}{restored}"


@dataclass(frozen=True)
class ApplicationPaused(Event, terminal="always"):
    """The application was paused at `since`, ms since 1970: no epoch and no slice of a restore starts."""

    since: int

    note = "paused"

    @property
    def said(self) -> str:
        return f"paused at {moment(self.since)}; `headwater resume` ends the pause"


@dataclass(frozen=True)
class ApplicationResumed(Event, terminal="always"):
    """The pause has ended."""

    note = RUNNING
    said = "resumed"


@dataclass(frozen=True)
class ApplicationStopping(Event):
    """The application ends once its open `epochs` are finished and committed."""

    epochs: int

    note = "ends once its open epochs are committed"

    @property
    def said(self) -> str:
        open_epochs = "the open epoch is" if self.epochs == 1 else f"{self.epochs:,} open epochs are"
        return f"ends, once {open_epochs} finished and committed"


@dataclass(frozen=True)
class ApplicationStopped(Event):
    """The loop has ended. `reason`: a `Status` of `results.py`. `error`: the message of the error that has ended it."""

    reason: str
    records: int
    commits: int
    error: str | None = None

    @property
    def level(self) -> Level:
        return "error" if self.reason in ("failed", "fenced") else "info"

    @property
    def note(self) -> str:
        return self.reason.replace("_", " ")

    @property
    def said(self) -> str:
        return f"{self.note}, {counted(self.records, 'record')} in {counted(self.commits, 'commit')}"


@dataclass(frozen=True)
class ClusterEnded(Event, level="warning", terminal="always"):
    """The cluster was ended while the run was stopping: `cause`. Open epochs are not committed."""

    cause: str

    @property
    def said(self) -> str:
        return (
            f"ends without a commit of its open epochs, as {self.cause}; no record is lost: the next run processes "
            "them again"
        )


@dataclass(frozen=True)
class TopicRepartitioned(Event, terminal="always", needs_run=False):
    """An external topic was repartitioned: its `records` from `was` into `partitions` partitions, by `key` instead of
    `old_key`. `application`: of the external topics. `seconds`: duration.
    """

    topic: str
    records: int
    was: int
    partitions: int
    old_key: str
    key: str
    seconds: float

    @property
    def subject(self) -> str:
        return self.topic

    @property
    def said(self) -> str:
        instead = f" instead of {self.was}" if self.was != self.partitions else ""
        by = f", by the key {self.key or '(none)'}" if self.key != self.old_key else ""
        put = f"{counted(self.records, 'record')} put into {counted(self.partitions, 'partition')}"
        return f"{put}{instead}{by}, in {self.seconds:.1f} s"


@dataclass(frozen=True)
class RecomputationBegun(Event, terminal="always"):
    """A rebuild of the application's result starts or resumes. `records`: topic -> records that it reads again, of
    topics that are not rebuilt themselves.
    """

    records: Mapping[str, int]

    note = "rebuilding"

    @property
    def said(self) -> str:
        topology = self.application.partition("-")[2]
        counts = ", ".join(f"{counted(count, 'record')} of {topic}" for topic, count in self.records.items())
        return f"rebuilding {topology}, while the present result stays{counts and f': {counts}'}"


@dataclass(frozen=True)
class ResultSwitched(Event, terminal="always"):
    """The rebuild has caught up and has replaced the old result."""

    note = "switched"
    said = "switched to the rebuilt result; the old one is dropped"


UNFINISHED = "its rebuild is not complete, and the old result stays"
"""Of a rebuild that a run has not finished."""


@dataclass(frozen=True)
class RecomputationUnfinished(Event, level="warning", terminal="always"):
    """This run cannot finish the rebuild: `cause`. The old result stays."""

    cause: str

    note = "not rebuilt"

    @property
    def said(self) -> str:
        return f"{UNFINISHED}: {self.cause}"


# Epochs, and what tasks wait for.


@dataclass(frozen=True)
class SubtopologyEvent(Event):
    """An event of tasks of one subtopology."""

    subtopology: str

    @property
    def subject(self) -> str:
        return f"{self.application}/{self.subtopology}"


@dataclass(frozen=True)
class EpochCommitted(SubtopologyEvent):
    """The tasks of one subtopology on one client have committed an epoch.

    `records`: consumed. `bytes`: of these in memory; the setting `max_bytes` limits them. `lag`: unread records of the
    source topics of these tasks. `seconds`: from the plan to the commit. `dropped`: `<step>:<reason>` -> records.
    """

    client: str
    commit: int
    records: int
    lag: int
    seconds: float
    dropped: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0

    note = RUNNING

    @property
    def said(self) -> str:
        rate = self.records / self.seconds if self.seconds else 0.0
        dropped = f", {sum(self.dropped.values()):,} dropped" if self.dropped else ""
        return f"commit {self.commit}, {counted(self.records, 'record')} ({rate:,.0f}/s){dropped}, lag {self.lag:,}"


@dataclass(frozen=True)
class EpochTraced(Event, logged=False):
    """The trace of a finished epoch, committed or not. Only in a run with a trace."""

    trace: EpochTrace

    @property
    def subject(self) -> str:
        return f"{self.application}/{self.trace.subtopology}"

    @property
    def said(self) -> str:
        return f"epoch {self.trace.epoch} took {self.trace.seconds:.3f} s"


@dataclass(frozen=True)
class StatusTaken(Event, logged=False):
    """The status of the run, about once a second and at its end."""

    status: RunStatus

    @property
    def said(self) -> str:
        clients = self.status.clients
        copies = counted(sum(len(client.tasks) for client in clients), "task")
        return f"{copies} on {counted(len(clients), 'client')}, {counted(self.status.records, 'record')} so far"


@dataclass(frozen=True)
class NothingToRead(Event, level="warning"):
    """External topics that have never had a record."""

    topics: tuple[str, ...]

    @property
    def said(self) -> str:
        one = len(self.topics) == 1
        return (
            f"there are no records in {first_of(self.topics)} yet: `headwater seed` fills {'it' if one else 'them'} "
            f"from {'its seed' if one else 'their seeds'} (so does `headwater build`), `headwater seed --append` from "
            "elsewhere"
        )

    @property
    def note(self) -> str:
        return f"no records in {', '.join(self.topics)} yet"


@dataclass(frozen=True)
class Waiting(Event):
    """Records may not be consumed yet: the writers of their topics are behind and do not run.

    `writers`: these applications; the application itself where some of its tasks have stopped. None: the records are of
    tasks that no client runs.
    """

    records: int
    writers: tuple[str, ...]

    @property
    def said(self) -> str:
        names = ("tasks that have stopped" if writer == self.application else writer for writer in self.writers)
        causes = ", ".join(names) or "tasks that no client runs"
        return f"{counted(self.records, 'record')} wait{'s' if self.records == 1 else ''} for {causes}"

    @property
    def note(self) -> str:
        return f"waits for {', '.join(self.writers)}"


@dataclass(frozen=True)
class TasksWait(Event, level="warning", terminal="always"):
    """Tasks wait though they have unread records, for a cause that only a user can end: a stopped task, or an
    application that does not run or is paused. One event per cause, and another one with all tasks when more of them
    wait for it.
    """

    tasks: tuple[TaskId, ...]
    waits_for: WaitsFor

    @property
    def said(self) -> str:
        return self.waits_for.sentence(self.tasks, self.application)


@dataclass(frozen=True)
class WaitEnded(Event, terminal="always"):
    """The cause for which these tasks have waited is over."""

    tasks: tuple[TaskId, ...]
    waits_for: WaitsFor

    @property
    def said(self) -> str:
        return self.waits_for.end_sentence(self.tasks, self.application)


@dataclass(frozen=True)
class TaskFailed(SubtopologyEvent, level="error", terminal="always"):
    """A task has stopped: a step could not process one of its records, or its stores cannot be restored. `hint`: the
    way out, None if unknown.
    """

    partition: int
    message: str
    hint: str | None = None

    note = RUNNING

    @property
    def said(self) -> str:
        way_out = "" if self.hint is None else f"\n    hint: {self.hint}"
        return f"task {self.partition} stopped: {self.message}{way_out}"


@dataclass(frozen=True)
class TaskBeginsAgain(SubtopologyEvent, level="warning", terminal="always"):
    """An epoch of a task failed because of its stores: `cause`. They are checked, and restored if they are damaged."""

    partition: int
    client: str
    cause: str

    @property
    def said(self) -> str:
        return f"task {self.partition} restarts on {self.client}, while the others continue: {self.cause}"


# What a run writes for other programs.


@dataclass(frozen=True)
class LineageNotSent(Event, level="warning", terminal="always"):
    """OpenLineage's server or file (`target`) has not accepted an event: `cause`. One event per run, which
    continues.
    """

    target: str
    cause: str

    subject = ""

    @property
    def said(self) -> str:
        return f"OpenLineage events cannot be sent to {self.target}; the run continues without: {self.cause}"


@dataclass(frozen=True)
class TraceNotWritten(Event, level="warning", terminal="always"):
    """The file of the run's trace (`path`) cannot be written any more: `cause`. One event per run, which continues."""

    path: str
    cause: str

    subject = ""

    @property
    def said(self) -> str:
        return f"the trace in {self.path} ends here; the run continues without it: {self.cause}"
