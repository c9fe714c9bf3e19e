"""The numbers of an application's status as samples of metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ..driver.reports.counters import EPOCH_PHASES, TaskCounts
from ..driver.reports.status import ClientStatus, RunStatus, TaskStatus
from ..tasks.measured import PHASES
from . import families
from .families import Family

Sample = tuple[Family, tuple[str, ...], float]
"""A metric, the values of its labels in their order, and its number."""


def samples(status: RunStatus) -> Iterator[Sample]:
    """All numbers of a run, as they were at one moment."""
    at = (status.application,)
    yield families.APPLICATION_RUNNING, at, status.ended is None
    yield families.APPLICATION_PAUSED, at, status.paused
    yield families.APPLICATION_REBALANCING, at, status.rebalancing
    yield families.APPLICATION_GENERATION, at, status.generation
    yield families.APPLICATION_STARTED, at, status.started_at / 1000
    yield families.APPLICATION_SEEN, at, status.written_at / 1000
    yield families.APPLICATION_RECORDS, at, status.records
    yield families.APPLICATION_COMMITS, at, status.commits
    yield from _dropped(families.APPLICATION_DROPPED, at, status.dropped)
    for client in status.clients:
        yield from _of_client(status, client)
        for task in client.tasks:
            yield from _of_copy(status.application, client.name, task)
            if task.counts is not None:
                yield from _of_task((status.application, task.subtopology, str(task.partition)), task.counts)


def _of_client(status: RunStatus, client: ClientStatus) -> Iterator[Sample]:
    at = (status.application, client.name, client.host or status.host)
    yield families.CLIENT_THREADS, at, client.threads
    for kind, tasks in Counter((task.role, task.state) for task in client.tasks).items():
        yield families.CLIENT_TASKS, (*at, *kind), tasks
    for epochs in client.epochs:
        unit = (status.application, epochs.subtopology, client.name)
        yield families.EPOCHS, unit, epochs.epochs
        yield families.EPOCH_COMMITS, unit, epochs.commits
        yield families.EPOCH_RECORDS, unit, epochs.records
        yield families.EPOCH_BYTES, unit, epochs.bytes
        for phase, seconds in zip(EPOCH_PHASES, epochs.seconds, strict=True):
            yield families.EPOCH_SECONDS, (*unit, phase), seconds


def _of_copy(application: str, client: str, task: TaskStatus) -> Iterator[Sample]:
    """What is true of a task on one client only."""
    partition = str(task.partition)
    at = (application, task.subtopology, partition, client, task.role)
    yield families.TASK_STATE, (*at, task.state), 1
    yield families.TASK_LAG if task.processes else families.TASK_REMAINING, at, task.lag
    for store in task.stores:
        of = (application, store.name, partition, client, task.role)
        yield families.STORE_POSITION, of, store.position
        yield families.STORE_END, of, store.end
        if store.size is not None:
            yield families.STORE_BYTES, of, store.size.bytes
            if store.size.rows is not None:
                yield families.STORE_ROWS, of, store.size.rows


def _of_task(at: tuple[str, ...], counts: TaskCounts) -> Iterator[Sample]:
    """What is counted of a task, wherever it runs."""
    volume = counts.volume
    yield families.TASK_EPOCHS, at, counts.epochs
    yield families.TASK_RECORDS, at, counts.records
    yield families.TASK_READ_BYTES, at, volume.read_bytes
    yield families.TASK_WRITTEN_RECORDS, at, volume.written_records
    yield families.TASK_WRITTEN_BYTES, at, volume.written_bytes
    yield families.TASK_CHANGED_RECORDS, at, volume.changed_records
    yield families.TASK_CHANGED_BYTES, at, volume.changed_bytes
    yield from _dropped(families.TASK_DROPPED, at, counts.dropped)
    for phase, seconds in zip(PHASES, counts.seconds.values, strict=True):
        yield families.TASK_SECONDS, (*at, phase), seconds


def _dropped(family: Family, at: tuple[str, ...], dropped: Mapping[str, int]) -> Iterator[Sample]:
    for what, records in sorted(dropped.items()):
        step, _, reason = what.rpartition(":")
        yield family, (*at, step, reason), records
