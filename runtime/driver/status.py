"""The status of a run, and its metrics as JSON."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from ...errors import HeadwaterError
from ..dataclass_json import fitting, parsed, to_json
from ..state.machine import boot_id
from ..state.process_file import Owner
from ..tasks.measured import PHASES, StoreSize
from .counters import EPOCH_PHASES, EpochCounts, TaskCounts
from .errors import Stop, TasksOfCause, WaitsFor

# The driver of an application writes a RunStatus to the log about once a second. It is for people: after a kill it is
# old, and only the commits are true.

VERSION = 1
"""Of the format. Readers ignore unknown fields, so it is raised only if a field changes its meaning."""

SILENT_MS = 5_000
"""A status that is older than this, and than three times its own interval, is stale."""

Condition = Literal["running", "ended", "gone", "silent"]
"""`gone`: its process has ended without a final status. `silent`: it writes no status any more, and may be alive."""


class NewerStatusError(HeadwaterError):
    """A status was written by a later version of Headwater: `application`, `version`."""

    def __init__(self, application: str, version: int) -> None:
        super().__init__(
            f"{application} is run by a newer version of Headwater: its status has format {version}, and this version "
            f"reads formats up to {VERSION}",
            "use the version that runs it",
        )
        self.application = application
        self.version = version


@dataclass(frozen=True)
class StoreStatus:
    """A store of a task. `position`: changelog records that are applied; `end`: that are committed. `size`: None if
    unknown.
    """

    name: str
    position: int
    end: int
    size: StoreSize | None = None

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class KafkaLag:
    """How late a task that copies from Kafka is. `seconds`: for how long its oldest unread record has been there, as
    far as the run has seen it. `held`: offsets that an open transaction of another application holds back; they are not
    part of the lag.
    """

    seconds: float
    held: int


@dataclass(frozen=True)
class TaskStatus:
    """A task on a client.

    `role`, `state`: values of TaskType and State. `since`: start of this state, ms since 1970. `lag`: unread records of
    a running active task; of all others changelog records that its stores lack. `rate`: of these records, recently
    consumed or applied per second. `counts`: of an active task, since the start of the run, on all clients.
    """

    id: str
    subtopology: str
    partition: int
    role: str
    state: str
    since: int
    lag: int
    rate: float
    stores: tuple[StoreStatus, ...] = ()
    counts: TaskCounts | None = None

    as_list: ClassVar[bool] = True

    @property
    def processes(self) -> bool:
        """Whether it consumes records, so that its lag is of its topics."""
        return self.role == "active" and self.state == "running"

    @property
    def restored(self) -> float:
        """The share of its stores' changelog records that is applied; 1.0 without any."""
        end = sum(store.end for store in self.stores)
        return 1.0 if not end else min(1.0, sum(store.position for store in self.stores) / end)

    @property
    def seconds_left(self) -> float | None:
        """How long its stores need to catch up at the present rate, seconds; None if unknown, or if it consumes
        records.
        """
        if self.processes:
            return None
        if not self.lag:
            return 0.0
        return self.lag / self.rate if self.rate else None


@dataclass(frozen=True)
class ClientStatus:
    """A client with its tasks, the active ones first. `host`: empty if it is in the driver's process. `epochs`: since
    the start of the run, by subtopology.
    """

    name: str
    threads: int
    host: str
    tasks: tuple[TaskStatus, ...]
    epochs: tuple[EpochCounts, ...] = ()


@dataclass(frozen=True)
class RunStatus:
    """A run of an application, as its driver saw it at `written_at`. Times are ms since 1970, by the driver's clock.

    `host`, `owner`: of the driver. `every`: interval of statuses, ms. `rebalancing`: a rebalance is in progress.
    `ended`: how it ended, as in a run's results; None while it runs. `error`, `hint`: of the error that ended it.
    `failed_tasks`: ids of stopped tasks. `stops`: task id -> cause. `waits`: tasks that wait though they have unread
    records. `paused`: no epoch is open, and none starts. `dropped`: `<step>:<reason>` -> records; those of global
    tables belong to no task. `kafka`: id of a task that copies from Kafka -> how late it is. `epochs`: their number;
    `seconds`: their time by EPOCH_PHASES, on all clients of the run.
    """

    application: str
    generation: int
    host: str
    owner: Owner | None
    started_at: int
    written_at: int
    every: int
    records: int
    commits: int
    rebalancing: bool
    clients: tuple[ClientStatus, ...]
    ended: str | None = None
    paused: bool = False
    version: int = VERSION
    dropped: Mapping[str, int] = field(default_factory=dict)
    epochs: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    hint: str | None = None
    failed_tasks: tuple[str, ...] = ()
    stops: Mapping[str, Stop] = field(default_factory=dict)
    waits: tuple[TasksOfCause, ...] = ()
    kafka: Mapping[str, KafkaLag] = field(default_factory=dict)

    seldom: ClassVar[tuple[str, ...]] = ("kafka",)

    def kafka_lag(self, task: TaskStatus) -> KafkaLag | None:
        """How late a task is; None if it does not run, or copies nothing from Kafka."""
        return self.kafka.get(task.id) if task.processes else None

    def stop(self, task: TaskStatus) -> Stop | None:
        """The cause for which a task has stopped; None if it has not."""
        return self.stops.get(task.id) if task.role == "active" else None

    def waits_for(self, task: TaskStatus) -> tuple[WaitsFor, ...]:
        """The causes for which a task waits though it has unread records."""
        return tuple(self._causes.get(task.id, ())) if task.role == "active" else ()

    @cached_property
    def _causes(self) -> Mapping[str, Sequence[WaitsFor]]:
        causes: dict[str, list[WaitsFor]] = {}
        for waiting in self.waits:
            for task in waiting.tasks:
                causes.setdefault(task, []).append(waiting.cause)
        return causes

    def to_text(self) -> str:
        """The status as JSON, for the log."""
        return to_json(self)

    @classmethod
    def from_text(cls, application: str, text: str) -> RunStatus | None:
        """The status from JSON of `to_text`; None if it is damaged. Raises NewerStatusError."""
        try:
            plain = parsed(text)
            version = plain["version"]
            if version > VERSION:
                raise NewerStatusError(application, version)
            return fitting(cls, plain)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    @property
    def lives(self) -> bool | None:
        """Whether its process is alive; None if unknown, as it runs on another machine."""
        if self.owner is None or self.owner.boot_id != boot_id() or self.host != socket.gethostname():
            return None
        return self.owner.is_alive()

    def condition(self, now_ms: int) -> Condition:
        """The condition of the run as seen from this process. `now_ms`: the present time, ms since 1970."""
        if self.ended is not None:
            return "ended"
        if self.lives is False:
            return "gone"
        return "silent" if now_ms - self.written_at > max(SILENT_MS, 3 * self.every) else "running"


def this_process() -> tuple[str, Owner | None]:
    """The host and the process of this code."""
    return socket.gethostname(), Owner.from_pid(os.getpid())


# Metrics of a run as JSON: in `run_results.json`, and printed by `headwater tasks --format json`.


def run_figures(status: RunStatus) -> dict[str, Any]:
    """The metrics of a run, as `metrics` in `schemas/run_results.json`."""
    return {
        "epochs": status.epochs,
        "seconds": {phase: round(status.seconds.get(phase, 0.0), 6) for phase in EPOCH_PHASES},
        "clients": [client_figures(client, status) for client in status.clients],
    }


def client_figures(client: ClientStatus, status: RunStatus) -> dict[str, Any]:
    """The metrics of a client with its tasks."""
    return {
        "client": client.name,
        "host": client.host or status.host,
        "threads": client.threads,
        "epochs": [_epochs(counts) for counts in client.epochs],
        "tasks": [_task(task, status) for task in client.tasks],
    }


def _epochs(counts: EpochCounts) -> dict[str, Any]:
    return {
        "subtopology": counts.subtopology,
        "epochs": counts.epochs,
        "commits": counts.commits,
        "records": counts.records,
        "bytes": counts.bytes,
        "seconds": _seconds(EPOCH_PHASES, counts.seconds),
    }


def _task(task: TaskStatus, status: RunStatus) -> dict[str, Any]:
    stop, late = status.stop(task), status.kafka_lag(task)
    return {
        **({} if late is None else {"kafka_lag": asdict(late)}),
        "task": task.id,
        "subtopology": task.subtopology,
        "partition": task.partition,
        "role": task.role,
        "state": task.state,
        "since": task.since,
        "lag": task.lag,
        "rate": task.rate,
        "restored": round(task.restored, 4),
        "seconds_left": None if task.seconds_left is None else round(task.seconds_left, 1),
        "stores": [_store(store) for store in task.stores],
        "counts": None if task.counts is None else _counts(task.counts),
        "stop": None if stop is None else asdict(stop),
        "waits_for": [asdict(cause) for cause in status.waits_for(task)],
    }


def _store(store: StoreStatus) -> dict[str, Any]:
    rows, size = store.size or (None, None)
    return {"store": store.name, "position": store.position, "end": store.end, "rows": rows, "bytes": size}


def _counts(counts: TaskCounts) -> dict[str, Any]:
    volume = counts.volume
    return {
        "epochs": counts.epochs,
        "consumed_records": counts.records,
        "consumed_bytes": volume.read_bytes,
        "produced_records": volume.written_records,
        "produced_bytes": volume.written_bytes,
        "changelog_records": volume.changed_records,
        "changelog_bytes": volume.changed_bytes,
        "dropped": dict(sorted(counts.dropped.items())),
        "seconds": _seconds(PHASES, counts.seconds.values),
    }


def _seconds(phases: Sequence[str], seconds: Sequence[float]) -> dict[str, float]:
    return {phase: round(spent, 6) for phase, spent in zip(phases, seconds, strict=True)}
