"""What `balanced` weighs: the state to move to each client, who can run a task now, and each task's load.

Everything is an array over tasks and clients, numbered in sorted order. What was not measured is estimated: an unknown
load is the average load, and an unknown size follows from the number of changelog records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from ..api.cluster import (
    LATEST_OFFSET,
    UNKNOWN_LAG,
    ApplicationState,
    ClientState,
    ProcessId,
    TaskInfo,
    UnknownLagError,
)
from ..racks.traffic import rack_traffic

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

PRESENCE = 0.1
"""The load of a task that takes no records, as a part of the average load."""

RECORD_BYTES = 100.0
"""Bytes of state for each changelog record, if no task was measured."""

STATE_BYTES = float(1 << 20)
"""Bytes of state of a task, if nothing is known about any."""

_KEY = attrgetter("subtopology", "partition")


@dataclass(frozen=True)
class Estimates:
    """Estimates of tasks (rows) on clients (columns).

    `load`, by task: 1 is the average. `threads`, by client. `bytes_moved`: state to bring to the client.
    `caught_up`: whether the client can run the task at once. `far`: partitions read from other racks. `previous`, by
    task: the client that ran it, -1 for none. `replicated`: which tasks can have standbys.
    """

    load: Floats
    threads: Floats
    bytes_moved: Floats
    caught_up: Bools
    far: Floats
    previous: npt.NDArray[np.int64]
    replicated: Bools


def with_lags(application_state: ApplicationState) -> Mapping[ProcessId, ClientState]:
    """The clients with lags.

    If lags are unknown, previous owners count as running and previous standbys as caught up.
    """
    try:
        return application_state.client_states(compute_task_lags=True)
    except UnknownLagError:
        return {
            name: replace(
                client,
                lags=dict.fromkeys(client.previous_standby_tasks, 0)
                | dict.fromkeys(client.previous_active_tasks, LATEST_OFFSET),
            )
            for name, client in application_state.clients.items()
        }


def estimates(application_state: ApplicationState, clients: Mapping[ProcessId, ClientState]) -> Estimates:
    """Estimate all tasks on all clients. `clients` have lags, see `with_lags`; a missing lag is unknown."""
    infos = [application_state.all_tasks[task] for task in sorted(application_state.all_tasks, key=_KEY)]
    states = [clients[name] for name in sorted(clients)]
    numbers = {_KEY(info.id): number for number, info in enumerate(infos)}
    replicated = np.array([info.is_changelogged for info in infos], np.bool_)
    lag = _lags(numbers, states)
    # A client with an empty store lags by the whole changelog, so the largest lag is the best guess at its length.
    end = lag.max(axis=1, initial=0).astype(np.float64)
    missing = np.where(lag < 0, 1.0, lag / np.maximum(end, 1.0)[:, None])
    missing[lag == LATEST_OFFSET] = 0.0
    missing[~replicated] = 0.0
    acceptable = application_state.assignment_configs.acceptable_recovery_lag
    return Estimates(
        _loads(infos),
        np.array([state.num_processing_threads for state in states], np.float64),
        missing * _sizes(infos, end)[:, None],
        (lag == LATEST_OFFSET) | ((lag >= 0) & (lag <= acceptable)) | ~replicated[:, None],
        _far(application_state, infos, states),
        _previous(numbers, states),
        replicated,
    )


def _lags(numbers: Mapping[tuple[int, int], int], clients: list[ClientState]) -> npt.NDArray[np.int64]:
    lag = np.full((len(numbers), len(clients)), UNKNOWN_LAG, np.int64)
    for column, client in enumerate(clients):
        lags = client.lags or {}
        rows = np.fromiter((numbers.get(key, -1) for key in map(_KEY, lags)), np.int64, len(lags))
        known = rows >= 0
        lag[rows[known], column] = np.fromiter(lags.values(), np.int64, len(lags))[known]
    return lag


def _loads(infos: list[TaskInfo]) -> Floats:
    rates = np.array([np.nan if each.records_per_second is None else each.records_per_second for each in infos])
    average = np.nanmean(rates) if np.isfinite(rates).any() else 0.0
    if average <= 0:
        return np.ones(len(infos))
    return (np.where(np.isnan(rates), average, rates) / average + PRESENCE) / (1 + PRESENCE)


def _sizes(infos: list[TaskInfo], end: Floats) -> Floats:
    """Bytes of state by task. `end`: changelog records, 0 where unknown."""
    sizes = np.array([np.nan if each.state_bytes is None else float(each.state_bytes) for each in infos])
    measured = np.isfinite(sizes)
    counted = measured & (end > 0)
    of_record = sizes[counted].sum() / end[counted].sum() if counted.any() else RECORD_BYTES
    guess = sizes[measured].mean() if measured.any() else STATE_BYTES
    return np.where(measured, sizes, np.where(end > 0, end * of_record, guess))


def _far(application_state: ApplicationState, infos: list[TaskInfo], clients: list[ClientState]) -> Floats:
    far = np.zeros((len(infos), len(clients)))
    if application_state.assignment_configs.rack_aware_assignment_strategy == "none":
        return far
    traffic = rack_traffic(application_state, attrgetter("is_source"))
    if traffic is None:
        return far
    columns: dict[str, list[int]] = {}
    for column, client in enumerate(clients):
        columns.setdefault(traffic.racks[client.process_id], []).append(column)
    for row, info in enumerate(infos):
        replicas = traffic.replicas[info.id]
        far[row] = replicas.partitions
        for rack, near in replicas.near:
            far[row, columns.get(rack, [])] -= near
    return far


def _previous(numbers: Mapping[tuple[int, int], int], clients: list[ClientState]) -> npt.NDArray[np.int64]:
    previous = np.full(len(numbers), -1, np.int64)
    # Backwards, so that of two clients that report a task the first one counts.
    for column in range(len(clients) - 1, -1, -1):
        own = [numbers.get(_KEY(task), -1) for task in clients[column].previous_active_tasks]
        previous[[row for row in own if row >= 0]] = column
    return previous
