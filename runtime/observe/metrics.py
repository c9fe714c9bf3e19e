"""Metrics, with Prometheus names."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ...errors import HeadwaterError
from ...readable_text import readable
from ..driver.counters import EPOCH_PHASES, TaskCounts
from ..driver.events import Event, StatusTaken
from ..driver.status import ClientStatus, KafkaLag, RunStatus, TaskStatus
from ..tasks.measured import PHASES

if TYPE_CHECKING:
    from prometheus_client import Metric


# The names of all metrics, with their labels and meanings. They are stable; `docs/metrics.md` lists them.
#
# Names follow Prometheus: base units (seconds, bytes), and `_total` for counters.

_APPLICATION = ("application",)
_TASK = ("application", "subtopology", "partition")
_COPY = (*_TASK, "client", "role")
_STORE = ("application", "store", "partition", "client", "role")
_UNIT = ("application", "subtopology", "client")
_CLIENT = ("application", "client", "host")


@dataclass(frozen=True)
class Family:
    """A metric. `meaning`: a sentence. `kafka`: similar metrics of Kafka Streams, as `<group>: <names>`."""

    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    meaning: str
    kafka: tuple[str, ...] = field(default=())


def _family(name: str, labels: tuple[str, ...], meaning: str, *kafka: str) -> Family:
    kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
    return Family(name, kind, labels, meaning, kafka)


APPLICATION_RUNNING = _family(
    "headwater_application_running",
    _APPLICATION,
    "1 while the application runs, 0 once it has ended or was taken over.",
    "stream-metrics: state",
)
APPLICATION_PAUSED = _family("headwater_application_paused", _APPLICATION, "1 while the application is paused.")
APPLICATION_REBALANCING = _family(
    "headwater_application_rebalancing",
    _APPLICATION,
    "1 while tasks are on their way from one client to another.",
    "stream-metrics: state",
)
APPLICATION_GENERATION = _family(
    "headwater_application_generation", _APPLICATION, "The generation with which the run has claimed the application."
)
APPLICATION_STARTED = _family(
    "headwater_application_start_time_seconds", _APPLICATION, "When the run began, in seconds since 1970."
)
APPLICATION_SEEN = _family(
    "headwater_application_status_time_seconds",
    _APPLICATION,
    "When the driver took these numbers, in seconds since 1970: about once a second.",
)
APPLICATION_RECORDS = _family(
    "headwater_application_consumed_records_total",
    _APPLICATION,
    "Records that were consumed.",
    "stream-topic-metrics: records-consumed-total",
)
APPLICATION_COMMITS = _family(
    "headwater_application_commits_total", _APPLICATION, "Commits with records.", "stream-thread-metrics: commit-total"
)
APPLICATION_DROPPED = _family(
    "headwater_application_dropped_records_total",
    (*_APPLICATION, "step", "reason"),
    "Records that a step dropped; the step of a global table is the table.",
    "stream-task-metrics: dropped-records-total",
)
EPOCHS = _family(
    "headwater_epochs_total",
    _UNIT,
    "Epochs that ended, with a commit or without.",
    "stream-thread-metrics: process-total, poll-total",
)
EPOCH_COMMITS = _family(
    "headwater_epoch_commits_total", _UNIT, "Epochs that ended with a commit.", "stream-thread-metrics: commit-total"
)
EPOCH_RECORDS = _family(
    "headwater_epoch_consumed_records_total", _UNIT, "Records that were consumed by the tasks of the client."
)
EPOCH_BYTES = _family(
    "headwater_epoch_consumed_bytes_total", _UNIT, "Bytes of these records in memory, which max_bytes bounds."
)
EPOCH_SECONDS = _family(
    "headwater_epoch_seconds_total",
    (*_UNIT, "phase"),
    "Time of epochs, from planning to commit, by phase.",
    "stream-thread-metrics: process-ratio, poll-ratio, commit-ratio",
    "stream-thread-metrics: process-latency-avg, commit-latency-avg",
)
CLIENT_THREADS = _family(
    "headwater_client_threads", _CLIENT, "Threads of the client.", "stream-metrics: alive-stream-threads"
)
CLIENT_TASKS = _family(
    "headwater_client_tasks",
    (*_CLIENT, "role", "state"),
    "Tasks on the client, by role (active, standby) and state.",
    "stream-thread-metrics: task-created-total, task-closed-total",
)
TASK_STATE = _family("headwater_task_state", (*_COPY, "state"), "1 for the state of the task on the client.")
TASK_LAG = _family(
    "headwater_task_lag_records",
    _COPY,
    "Records committed to the topics of a running active task, and not consumed.",
    "consumer-fetch-manager-metrics: records-lag",
)
TASK_KAFKA_LAG = _family(
    "headwater_task_kafka_lag_seconds",
    _COPY,
    "For how long the oldest unread record of a task that copies from Kafka has been there, as far as the run saw it.",
)
TASK_KAFKA_HELD = _family(
    "headwater_task_kafka_held_records",
    _COPY,
    "Offsets that an open transaction of another application holds back from a task that copies from Kafka.",
)
TASK_REMAINING = _family(
    "headwater_task_restore_remaining_records",
    _COPY,
    "Changelog records that the stores of a task lack: of a standby task, or of an active one that does not run yet.",
    "stream-task-metrics: restore-remaining-records-total",
    "stream-state-updater-metrics: active-restoring-tasks, standby-updating-tasks",
)
TASK_EPOCHS = _family("headwater_task_epochs_total", _TASK, "Epochs of the task.", "stream-task-metrics: process-total")
TASK_RECORDS = _family(
    "headwater_task_consumed_records_total",
    _TASK,
    "Records that the task has consumed.",
    "stream-topic-metrics: records-consumed-total",
)
TASK_READ_BYTES = _family(
    "headwater_task_consumed_bytes_total",
    _TASK,
    "Bytes of these records in the log, about.",
    "stream-topic-metrics: bytes-consumed-total",
)
TASK_WRITTEN_RECORDS = _family(
    "headwater_task_produced_records_total",
    _TASK,
    "Records that the task has written to topics, repartition topics among them.",
    "stream-topic-metrics: records-produced-total",
)
TASK_WRITTEN_BYTES = _family(
    "headwater_task_produced_bytes_total",
    _TASK,
    "Bytes of these records.",
    "stream-topic-metrics: bytes-produced-total",
)
TASK_CHANGED_RECORDS = _family(
    "headwater_task_changelog_records_total",
    _TASK,
    "Records that the task has written to changelogs.",
    "stream-state-metrics: put-rate, delete-rate",
)
TASK_CHANGED_BYTES = _family("headwater_task_changelog_bytes_total", _TASK, "Bytes of these records.")
TASK_DROPPED = _family(
    "headwater_task_dropped_records_total",
    (*_TASK, "step", "reason"),
    "Records that a step of the task dropped: because they were late, for example.",
    "stream-task-metrics: dropped-records-total",
)
TASK_SECONDS = _family(
    "headwater_task_seconds_total",
    (*_TASK, "phase"),
    "Time of the task where it runs, by phase.",
    "stream-task-metrics: process-latency-avg",
    "stream-state-metrics: get-latency-avg, put-latency-avg, flush-latency-avg",
)
STORE_POSITION = _family(
    "headwater_store_changelog_position",
    _STORE,
    "The position in its changelog up to which the client's copy of the store has the records.",
)
STORE_END = _family(
    "headwater_store_changelog_end",
    _STORE,
    "The committed end of the store's changelog: a restore is done once the position is there.",
)
STORE_ROWS = _family(
    "headwater_store_rows",
    _STORE,
    "Rows of the client's copy of the store; of a backend that only estimates them, about.",
    "stream-state-metrics: estimate-num-keys",
)
STORE_BYTES = _family(
    "headwater_store_size_bytes",
    _STORE,
    "Bytes of the store's files on the client, with space that is free in them.",
    "stream-state-metrics: total-sst-files-size, live-sst-files-size, size-all-mem-tables",
)

FAMILIES = {family.name: family for family in list(globals().values()) if isinstance(family, Family)}
"""All of the above by name, in the order in which they are shown."""


# The numbers of an application's status as samples.

Sample = tuple[Family, tuple[str, ...], float]
"""A metric, the values of its labels in their order, and its value."""


def samples(status: RunStatus) -> Iterator[Sample]:
    """All numbers of a run, as of one moment."""
    at = (status.application,)
    yield APPLICATION_RUNNING, at, status.ended is None
    yield APPLICATION_PAUSED, at, status.paused
    yield APPLICATION_REBALANCING, at, status.rebalancing
    yield APPLICATION_GENERATION, at, status.generation
    yield APPLICATION_STARTED, at, status.started_at / 1000
    yield APPLICATION_SEEN, at, status.written_at / 1000
    yield APPLICATION_RECORDS, at, status.records
    yield APPLICATION_COMMITS, at, status.commits
    yield from _dropped(APPLICATION_DROPPED, at, status.dropped)
    for client in status.clients:
        yield from _client_samples(status, client)
        for task in client.tasks:
            yield from _copy_samples(status.application, client.name, task, status.kafka_lag(task))
            if task.counts is not None:
                yield from _task_samples((status.application, task.subtopology, str(task.partition)), task.counts)


def _client_samples(status: RunStatus, client: ClientStatus) -> Iterator[Sample]:
    at = (status.application, client.name, client.host or status.host)
    yield CLIENT_THREADS, at, client.threads
    for kind, tasks in Counter((task.role, task.state) for task in client.tasks).items():
        yield CLIENT_TASKS, (*at, *kind), tasks
    for epochs in client.epochs:
        unit = (status.application, epochs.subtopology, client.name)
        yield EPOCHS, unit, epochs.epochs
        yield EPOCH_COMMITS, unit, epochs.commits
        yield EPOCH_RECORDS, unit, epochs.records
        yield EPOCH_BYTES, unit, epochs.bytes
        for phase, seconds in zip(EPOCH_PHASES, epochs.seconds, strict=True):
            yield EPOCH_SECONDS, (*unit, phase), seconds


def _copy_samples(application: str, client: str, task: TaskStatus, late: KafkaLag | None) -> Iterator[Sample]:
    """Samples of a task on one client. `late`: see `RunStatus.kafka_lag`."""
    partition = str(task.partition)
    at = (application, task.subtopology, partition, client, task.role)
    yield TASK_STATE, (*at, task.state), 1
    yield TASK_LAG if task.processes else TASK_REMAINING, at, task.lag
    if late is not None:
        yield TASK_KAFKA_LAG, at, late.seconds
        yield TASK_KAFKA_HELD, at, late.held
    for store in task.stores:
        of = (application, store.name, partition, client, task.role)
        yield STORE_POSITION, of, store.position
        yield STORE_END, of, store.end
        if store.size is not None:
            yield STORE_BYTES, of, store.size.bytes
            if store.size.rows is not None:
                yield STORE_ROWS, of, store.size.rows


def _task_samples(at: tuple[str, ...], counts: TaskCounts) -> Iterator[Sample]:
    """Samples of a task, wherever it runs."""
    volume = counts.volume
    yield TASK_EPOCHS, at, counts.epochs
    yield TASK_RECORDS, at, counts.records
    yield TASK_READ_BYTES, at, volume.read_bytes
    yield TASK_WRITTEN_RECORDS, at, volume.written_records
    yield TASK_WRITTEN_BYTES, at, volume.written_bytes
    yield TASK_CHANGED_RECORDS, at, volume.changed_records
    yield TASK_CHANGED_BYTES, at, volume.changed_bytes
    yield from _dropped(TASK_DROPPED, at, counts.dropped)
    for phase, seconds in zip(PHASES, counts.seconds.values, strict=True):
        yield TASK_SECONDS, (*at, phase), seconds


def _dropped(family: Family, at: tuple[str, ...], dropped: Mapping[str, int]) -> Iterator[Sample]:
    for step_and_reason, records in sorted(dropped.items()):
        step, _, reason = step_and_reason.rpartition(":")
        yield family, (*at, step, reason), records


# Serves the numbers of a run in Prometheus' text format on this machine, during the run.

HOST = "127.0.0.1"
"""Only this machine is served: the numbers are for users who can log in here."""


class PortTakenError(HeadwaterError):
    """The port for metrics cannot be used: `port`, `cause`."""

    def __init__(self, port: int, cause: str) -> None:
        super().__init__(
            f"metrics cannot be served on port {port} of {HOST}: {cause}",
            "choose another port; with --metrics-port 0 the system chooses a free one",
        )
        self.port = port
        self.cause = cause


class LastStatuses:
    """An observer that keeps the last status of each application, and a collector of prometheus-client.

    Only the last status is shown, without tasks that have moved away and clients that are gone.
    """

    def __init__(self) -> None:
        self._last: dict[str, RunStatus] = {}
        self._lock = threading.Lock()

    def on(self, event: Event) -> None:
        """Keep the status of a StatusTaken event."""
        if isinstance(event, StatusTaken):
            with self._lock:
                self._last[event.application] = event.status

    def collect(self) -> Iterator[Metric]:
        """All metrics of all applications. Thread-safe."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            statuses = list(self._last.values())
        kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        families = {
            name: kinds[family.kind](name, family.meaning, labels=family.labels) for name, family in FAMILIES.items()
        }
        for status in statuses:
            for family, labels, value in samples(status):
                # The text format has no lone surrogates: one such label would make all metrics unreadable.
                families[family.name].add_metric([readable(label) for label in labels], value)
        yield from families.values()


@contextmanager
def serving(port: int) -> Iterator[tuple[LastStatuses, str]]:
    """An observer whose numbers are served until the block ends, and the URL. Port 0: any free port.

    Raises PortTakenError.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

    statuses = LastStatuses()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(statuses)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, HOST, registry)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise PortTakenError(port, "another program uses it" if taken else error.strerror or str(error)) from error
    try:
        yield statuses, f"http://{HOST}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
