"""The numbers of a run as JSON: in `run_results.json`, and from `headwater tasks --format json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...tasks.measured import PHASES
from .counters import EPOCH_PHASES, EpochCounts, TaskCounts
from .status import ClientStatus, RunStatus, StoreStatus, TaskStatus


def run_figures(status: RunStatus) -> dict[str, Any]:
    """The form published as `metrics` in `schemas/run_results.json`."""
    return {
        "epochs": status.epochs,
        "seconds": {phase: round(status.seconds.get(phase, 0.0), 6) for phase in EPOCH_PHASES},
        "clients": [client_figures(client, status) for client in status.clients],
    }


def client_figures(client: ClientStatus, status: RunStatus) -> dict[str, Any]:
    """A client of a run with its tasks."""
    return {
        "client": client.name,
        "host": client.host or status.host,
        "threads": client.threads,
        "epochs": [_epochs(each) for each in client.epochs],
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
    stop = status.stop(task)
    return {
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
        "stores": [_store(each) for each in task.stores],
        "counts": None if task.counts is None else _counts(task.counts),
        "stop": None if stop is None else asdict(stop),
        "waits_for": [asdict(each) for each in status.waits_for(task)],
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
        "dropped": _sorted(counts.dropped),
        "seconds": _seconds(PHASES, counts.seconds.values),
    }


def _sorted(dropped: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(dropped.items()))


def _seconds(phases: Sequence[str], seconds: Sequence[float]) -> dict[str, float]:
    return {phase: round(each, 6) for phase, each in zip(phases, seconds, strict=True)}
