"""The estimates and the local search of the assignor `balanced`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from .assignor import IN_ORDER
from .cluster import LATEST_OFFSET, UNKNOWN_LAG, ApplicationState, ClientState, ProcessId, TaskInfo, UnknownLagError
from .rack_flow import rack_traffic

# The estimates: loads of tasks, state to move to clients, and clients that can run a task now.
#
# All of them are arrays over tasks and clients, numbered in sorted order. Values without a measurement are estimated:
# an unknown load is the average load, and an unknown size follows from the number of changelog records.

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

PRESENCE = 0.1
"""The load of a task without records, as a part of the average load."""

RECORD_BYTES = 100.0
"""Bytes of state per changelog record, if no task was measured."""

STATE_BYTES = float(1 << 20)
"""Bytes of state of a task, if neither sizes nor lags are known."""


@dataclass(frozen=True)
class Estimates:
    """Estimates of tasks (rows) on clients (columns).

    By task and client: `bytes_moved`, the state to move to the client; `caught_up`, whether the client can run the task
    now; `far`, the number of partitions on other racks. By task: `load`, with an average of 1; `previous`, the client
    that ran it, -1 for none; `replicated`, whether it can have standbys. By client: `threads`.

    Task 0 has a changelog of 100 records and 1 MB. Client 0 runs it (lag -2), client 1 has a lag of 30, client 2 a lag
    of 100. With an acceptable lag of 50 its rows are:

        bytes_moved   0 MB   0.3 MB   1 MB      (lag / 100 of 1 MB)
        caught_up     True   True     False
    """

    load: Floats
    threads: Floats
    bytes_moved: Floats
    caught_up: Bools
    far: Floats
    previous: npt.NDArray[np.int64]
    replicated: Bools


def with_lags(application_state: ApplicationState) -> Mapping[ProcessId, ClientState]:
    """The clients with lags. Without known lags, previous owners count as running, previous standbys as caught up."""
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
    """Estimate all tasks on all clients. `clients` have lags, see `with_lags`; a missing lag counts as unknown."""
    infos = [application_state.all_tasks[task] for task in sorted(application_state.all_tasks, key=IN_ORDER)]
    states = [clients[name] for name in sorted(clients)]
    numbers = {IN_ORDER(info.id): number for number, info in enumerate(infos)}
    replicated = np.array([info.is_changelogged for info in infos], np.bool_)
    lag = _lags(numbers, states)
    # A client with an empty store lags by the whole changelog, so the largest lag is the best estimate of its length.
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
        rows = np.fromiter((numbers.get(key, -1) for key in map(IN_ORDER, lags)), np.int64, len(lags))
        existing = rows >= 0  # a client may report tasks of an earlier topology
        lag[rows[existing], column] = np.fromiter(lags.values(), np.int64, len(lags))[existing]
    return lag


def _loads(infos: list[TaskInfo]) -> Floats:
    """Loads by task. Rates 300, unknown, 100 have the average 200, and give ((1.5, 1, 0.5) + 0.1) / 1.1."""
    rates = np.array([np.nan if info.records_per_second is None else info.records_per_second for info in infos])
    average = np.nanmean(rates) if np.isfinite(rates).any() else 0.0
    if average <= 0:
        return np.ones(len(infos))
    return (np.where(np.isnan(rates), average, rates) / average + PRESENCE) / (1 + PRESENCE)


def _sizes(infos: list[TaskInfo], end: Floats) -> Floats:
    """Bytes of state by task. `end`: length of the changelog in records, 0 if unknown.

    Sizes 1000, unknown, unknown and ends 10, 20, 0 give 1000, 2000 (100 per record), 1000 (the average).
    """
    sizes = np.array([np.nan if info.state_bytes is None else float(info.state_bytes) for info in infos])
    measured = np.isfinite(sizes)
    with_end = measured & (end > 0)
    record_bytes = sizes[with_end].sum() / end[with_end].sum() if with_end.any() else RECORD_BYTES
    default = sizes[measured].mean() if measured.any() else STATE_BYTES
    return np.where(measured, sizes, np.where(end > 0, end * record_bytes, default))


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
    # Backwards: if two clients report a task, the first one counts.
    for column in range(len(clients) - 1, -1, -1):
        own = [numbers.get(IN_ORDER(task), -1) for task in clients[column].previous_active_tasks]
        previous[[row for row in own if row >= 0]] = column
    return previous


# The local search for the target clients of tasks. It starts from the clients that run them.
#
# The first objective is balance: the load of every client is within limits around its share by threads. The second one
# is the cost in seconds: the time until the last client has restored the tasks without a caught-up copy, plus the costs
# of moving state, of reading from other racks and of moving tasks.
#
# First the search makes moves that improve the balance, the cheapest for its effect first. Then it moves and swaps
# tasks while that saves seconds and keeps the balance. Every step improves an objective and harms none before it, so
# the search ends. It is deterministic: it visits everything in a fixed order and takes the first of equal candidates.
#
# A placement never needs more warm-ups than one round allows. So every placement can be carried out as a whole and is
# better than the previous one, and repeated rounds end. A part of a larger placement could be worse than both, and the
# next round would undo it.

Numbers = npt.NDArray[np.int64]

EPSILON = 1e-6
"""Gains below this are ignored, in seconds and in squared loads. It is far above rounding errors."""

WORK = 30_000_000
"""The most swaps that a search evaluates. Thousands of tasks then take seconds."""

AT_ONCE = 2_000_000
"""The most swaps evaluated in one array operation, which take a few dozen megabytes."""


@dataclass(frozen=True)
class Change:
    """The effects of candidate changes to the placement: arrays of tasks x candidates. Negative values are gains.

    `off`: on the first objective. `seconds`: on the second one. `even`: on the sum of squared restore seconds, which is
    smaller the more evenly clients share the restores. It decides when several clients finish their restores last.
    """

    off: Floats
    seconds: Floats
    even: Floats

    def cheapest(self) -> tuple[int, int] | None:
        """The change with the lowest cost for its gain in the first objective; None if none improves it."""
        helps = self.off < -EPSILON
        if not helps.any():
            return None
        price = np.full(helps.shape, np.inf)
        price[helps] = (self.seconds[helps] + EPSILON) / -self.off[helps]
        row, column = np.unravel_index(price.argmin(), price.shape)
        return int(row), int(column)

    def best(self, evenly: bool) -> tuple[tuple[float, float], tuple[int, int]] | None:
        """The gain and the index of the best change that does not harm the first objective; None without one.

        `evenly`: if no change saves time, accept one that shares restores more evenly.
        """
        seconds = np.where(self.off <= EPSILON, self.seconds, np.inf)
        if seconds.min() < -EPSILON:
            row, column = np.unravel_index(seconds.argmin(), seconds.shape)
            return (float(seconds.min()), 0.0), (int(row), int(column))
        even = np.where(seconds <= EPSILON, self.even, 0.0)
        if not evenly or even.min() >= -EPSILON:
            return None
        row, column = np.unravel_index(even.argmin(), even.shape)
        return (0.0, float(even.min())), (int(row), int(column))


@dataclass
class Search:
    """A placement while it is improved.

    By task and client: `down`, seconds to restore a task that no client can run meanwhile; `cost`, all other costs in
    seconds; `late`, whether the task must warm up there first. By task: `load`; `running`, the client that runs it, -1
    for none; `owner`, the result. By client: `threads`. `tolerance`: part of its share by which a client's load may
    differ. `warmups`: the most late tasks. The search starts from `running`, so that every move is an improvement.
    """

    load: Floats
    threads: Floats
    down: Floats
    cost: Floats
    late: Bools
    tolerance: float
    warmups: int
    running: Numbers
    owner: Numbers = field(init=False)
    loads: Floats = field(init=False)
    restores: Floats = field(init=False)
    share: Floats = field(init=False)
    warming: int = field(default=0, init=False)
    work: int = field(default=WORK, init=False)

    def __post_init__(self) -> None:
        self.owner = np.full(len(self.load), -1, np.int64)
        self.loads = np.zeros(len(self.threads))
        self.restores = np.zeros(len(self.threads))
        self.share = self.load.sum() * self.threads / self.threads.sum()

    def run(self) -> None:
        """Search for the best placement of all tasks: `owner`."""
        self._start()
        while any(self._balance(client) for client in self._heaviest()):
            pass
        while self._improve(int(self.restores.argmax()), restoring=True):
            pass
        improved = True
        while improved and self.work > 0:
            improved = False
            for client in range(len(self.threads)):
                while self._improve(client, restoring=False):
                    improved = True

    def _start(self) -> None:
        """Put each task on the client that runs it, else on the cheapest one. Tasks with equal costs go where load is
        missing. Large tasks come first.
        """
        seconds = self.down + self.cost
        least = seconds.min(axis=1)
        candidates = seconds <= least[:, None] + EPSILON
        runs = np.flatnonzero(self.running >= 0)
        candidates[runs] = False
        candidates[runs, self.running[runs]] = True
        anchored = ~candidates.all(axis=1)
        for task in np.lexsort((-self.load, -least)):
            if anchored[task]:
                clients = np.flatnonzero(candidates[task])
                self._put(task, int(clients[(self.loads[clients] / self.threads[clients]).argmin()]))
        for task in np.lexsort((-self.load, -least)):
            if not anchored[task]:
                change = self._off(self.loads + self.load[task]) - self._off(self.loads)
                after = self.restores + self.down[task]
                fill = (self.loads + self.load[task]) / self.threads
                self._put(task, int(np.lexsort((fill, after.round(6), change.round(9)))[0]))

    def _put(self, task: int, client: int) -> None:
        before = self.owner[task]
        if before >= 0:
            self.loads[before] -= self.load[task]
            self.restores[before] -= self.down[task, before]
            self.warming -= int(self.late[task, before])
        self.owner[task] = client
        self.loads[client] += self.load[task]
        self.restores[client] += self.down[task, client]
        self.warming += int(self.late[task, client])

    def _swap(self, task: int, other: int) -> None:
        client, owner = int(self.owner[task]), int(self.owner[other])
        self._put(task, owner)
        self._put(other, client)

    @property
    def _warmups_left(self) -> int:
        """The number of further tasks that may be late."""
        return max(self.warmups - self.warming, 0)

    def _heaviest(self) -> list[int]:
        """All clients, sorted by their load above their share, the largest first."""
        clients: list[int] = np.argsort((self.share - self.loads) / self.threads, kind="stable").tolist()
        return clients

    def _off(self, loads: Floats, clients: Numbers | int | slice = slice(None)) -> Floats:
        """The distances of loads from their limits, squared. The sum over clients is the first objective.

        With a share of 10, a tolerance of 0.1 and one thread, loads 8, 10 and 13 give 1, 0 and 4.
        """
        share = self.share[clients]
        beyond = np.maximum(np.abs(loads - share) - self.tolerance * share, 0.0)
        result: Floats = beyond * beyond / self.threads[clients]
        return result

    def _moves(self, client: int, tasks: Numbers) -> Change:
        """The effects of moving the client's `tasks` (rows) to all clients (columns).

        Client 0 has tasks of the loads 3 and 1, client 1 has none; both shares are 2, with one thread and no tolerance.
        Now `off` is 2 * 2 + 2 * 2 = 8. A move of the first task to client 1 leaves the loads 1 and 3, so 1 + 1 = 2: its
        `off` is 2 - 8 = -6. A move of the second one leaves 3 and 1, which is -6 too. A move to its own client is inf.
        """
        load, stay = self.load[tasks][:, None], self.loads[client : client + 1]
        off = self._off(stay - load, client) - self._off(stay, client)
        off = off + self._off(self.loads + load) - self._off(self.loads)
        off[:, client] = np.inf
        late = self.late.view(np.int8)
        # A move that exceeds the budget of warm-ups is never made.
        off[late[tasks] - late[tasks, client][:, None] > self._warmups_left] = np.inf
        here = self.restores[client] - self.down[tasks, client][:, None]
        there = self.restores + self.down[tasks]
        cost = self.cost[tasks] - self.cost[tasks, client][:, None]
        return self._change(client, slice(None), off, here, there, cost)

    def _swaps(self, client: int, tasks: Numbers, others: Numbers) -> Change:
        """The effects of swapping the client's `tasks` (rows) with `others` (columns), which other clients have."""
        owner = self.owner[others]
        more = self.load[others] - self.load[tasks][:, None]
        off = self._off(self.loads[client] + more, client) - self._off(self.loads[client : client + 1], client)
        off += self._off(self.loads[owner] - more, owner) - self._off(self.loads[owner], owner)
        late = self.late.view(np.int8)
        here_late, there_late = late[others, client] - late[tasks, client][:, None], late[np.ix_(tasks, owner)]
        off[here_late + there_late - late[others, owner] > self._warmups_left] = np.inf
        here = self.restores[client] - self.down[tasks, client][:, None] + self.down[others, client]
        there = self.restores[owner] - self.down[others, owner] + self.down[np.ix_(tasks, owner)]
        cost = self.cost[np.ix_(tasks, owner)] - self.cost[tasks, client][:, None]
        cost += self.cost[others, client] - self.cost[others, owner]
        return self._change(client, owner, off, here, there, cost)

    def _change(
        self, client: int, at: Numbers | slice, off: Floats, here: Floats, there: Floats, cost: Floats
    ) -> Change:
        """A Change. `here`: restore seconds of `client` after it. `there`: those of the clients `at`, by column.

        All restores end with the longest one. With restores of 5, 9, 4 seconds and `client` 0, `last` is 9, 4, 9: the
        longest restore without `client` and without the client of the column. A move of 2 seconds from client 0 to 2
        has `here` 3, `there` 6, and `end` max(3, 6, 9) = 9, so it saves nothing.
        """
        # `last`: the longest restore of the other clients; for the client with the longest one, the second longest.
        rest = self.restores.copy()
        rest[client] = 0.0
        last = np.full(len(rest), rest.max())
        rest[first := int(rest.argmax())] = 0.0
        last[first] = rest.max()
        end = np.maximum(np.maximum(here, there), last[at])
        even = here * here + there * there - (self.restores[client] ** 2 + self.restores[at] ** 2)
        return Change(off, end - self.restores.max() + cost, even)

    def _balance(self, client: int) -> bool:
        """Move the client's task that improves the balance most for its seconds. Returns whether a task was moved."""
        tasks = np.flatnonzero(self.owner == client)
        if not len(tasks):
            return False
        move = self._moves(client, tasks).cheapest()
        if move is not None:
            self._put(int(tasks[move[0]]), move[1])
        return move is not None

    def _improve(self, client: int, restoring: bool) -> bool:
        """Move or swap the client's task that saves most seconds. Returns whether a task was moved.

        `restoring`: consider the tasks that the client must restore, because only they can shorten its restores. Else
        consider those that would cost less on another client.
        """
        own = np.flatnonzero(self.owner == client)
        regret = self.down[own, client] if restoring else self.cost[own, client] - self.cost[own].min(axis=1)
        others = np.flatnonzero(self.owner != client)
        own, regret = own[regret > EPSILON], regret[regret > EPSILON]
        if not len(own) or not len(others) or self.work <= 0:
            return False
        own = own[np.argsort(-regret, kind="stable")[: max(1, AT_ONCE // len(others))]]
        self.work -= len(own) * len(others)
        move, swap = self._moves(client, own).best(restoring), self._swaps(client, own, others).best(restoring)
        if move is not None and (swap is None or move[0] <= swap[0]):
            self._put(int(own[move[1][0]]), move[1][1])
            return True
        if swap is not None:
            self._swap(int(own[swap[1][0]]), int(others[swap[1][1]]))
            return True
        return False
