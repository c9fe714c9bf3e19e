"""The names of all metrics, with their labels and what they mean. They are stable; `docs/metrics.md` lists them.

Names follow Prometheus: base units (seconds, bytes), `_total` for what only grows during a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

_APPLICATION = ("application",)
_TASK = ("application", "subtopology", "partition")
_COPY = (*_TASK, "client", "role")
_STORE = ("application", "store", "partition", "client", "role")
_UNIT = ("application", "subtopology", "client")
_CLIENT = ("application", "client", "host")


@dataclass(frozen=True)
class Family:
    """A metric. `meaning`: a sentence. `kafka`: what Kafka Streams has of this kind: `<group>: <names>`."""

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

FAMILIES = {each.name: each for each in list(globals().values()) if isinstance(each, Family)}
"""All of the above, by name, in the order in which they are shown."""
