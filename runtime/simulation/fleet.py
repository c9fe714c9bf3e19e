"""Simulated clients, and the events of a simulation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...errors import HeadwaterError
from ...suggestions import guess
from ..assignment.assignor import ClientAssignment, TaskType
from ..assignment.cluster import LATEST_OFFSET, ApplicationState, AssignmentConfigs, ClientState, Lags, ProcessId
from ..task_id import TaskId
from .model import Assumptions, Member, SimulatedTask, duration_ms

# The clients of a simulation at one time: the tasks of each client, and its copies of state.
#
# Where Kafka Streams leaves a choice, the model has these rules. A client restores one task after another: first tasks
# that are down, then standbys, both sorted by id. Standbys that have caught up stay caught up. A copy that is not
# assigned any more stays on disk for ten minutes and falls behind; until then it counts as a previous standby. A task
# is down from the time when its client is lost, or its new client must restore it, until it runs.

CLEANUP_MS = 600_000
"""How long an unassigned copy stays on disk, as Kafka Streams' state.cleanup.delay.ms."""


@dataclass
class Copy:
    """A client's copy of a task's state. `records`: changelog records applied. `unused_since`: in ms; None while it is
    assigned.
    """

    records: float = 0.0
    unused_since: float | None = None


@dataclass(frozen=True)
class Restored:
    """The restores in a period of time: records and bytes. `by_task`: records by client and task. `down`: how long each
    task was down at the end of its downtime or of the period, in ms.
    """

    records: float = 0.0
    bytes: float = 0.0
    by_task: Mapping[tuple[str, TaskId], float] = field(default_factory=dict)
    down: Mapping[TaskId, float] = field(default_factory=dict)


class Fleet:
    """The clients at one time. Times are ms since the start of the simulation."""

    def __init__(self, tasks: Iterable[SimulatedTask], members: Iterable[Member], assumptions: Assumptions) -> None:
        self.tasks = {task.info.id: task for task in sorted(tasks, key=lambda task: task.info.id)}
        self.members = {member.name: member for member in members}
        self.now = 0.0
        self.owner: dict[TaskId, str] = {}
        self.standbys: dict[TaskId, tuple[str, ...]] = {}
        self.running: set[TaskId] = set()
        self._assumptions = assumptions
        self._ends: dict[TaskId, float] = dict.fromkeys(self.tasks, 0.0)
        self._copies: dict[str, dict[TaskId, Copy]] = {name: {} for name in self.members}
        self._down_since: dict[TaskId, float] = {}

    def fill(self) -> None:
        """Grow the state of all tasks to its size, on the clients that have it."""
        for task, simulated in self.tasks.items():
            before, self._ends[task] = self._ends[task], float(simulated.size.records)
            for copies in self._copies.values():
                copy = copies.get(task)
                if copy is not None and copy.records >= before:
                    copy.records = self._ends[task]

    def join(self, member: Member) -> None:
        """A client joins, or returns with the state on its disk."""
        self.members[member.name] = member
        self._copies.setdefault(member.name, {})

    def leave(self, name: str, *, keeps_disk: bool) -> None:
        """A client leaves. Its tasks are down from now on."""
        del self.members[name]
        for task in [task for task, owner in self.owner.items() if owner == name]:
            del self.owner[task]
            self._stop(task)
        self.standbys = {
            task: tuple(client for client in clients if client != name) for task, clients in self.standbys.items()
        }
        if not keeps_disk:
            del self._copies[name]
            return
        for copy in self._copies[name].values():
            copy.unused_since = self.now

    def state(self, configs: AssignmentConfigs, start_ms: int = 0) -> ApplicationState:
        """The current input of an assignor."""
        self._clean()
        clients = {ProcessId(name): self._client(member, configs) for name, member in sorted(self.members.items())}
        return ApplicationState(
            all_tasks={task: simulated.info for task, simulated in self.tasks.items()},
            clients=clients,
            assignment_configs=configs,
            lookup_lags=self._lags,
            leader=min(clients),
            now_ms=start_ms + round(self.now),
        )

    def place(self, assignments: Mapping[ProcessId, ClientAssignment]) -> None:
        """Carry out an assignment. Tasks that need no restore run at once."""
        before, self.owner, standbys = self.owner, {}, dict[TaskId, list[str]]()
        for name, assignment in sorted(assignments.items()):
            for task in assignment.of_type(TaskType.ACTIVE):
                self.owner[task] = name
            for task in assignment.of_type(TaskType.STANDBY):
                standbys.setdefault(task, []).append(name)
        self.standbys = {task: tuple(names) for task, names in standbys.items()}
        for task in self.tasks:
            self._use_copies(task)
            if task in self.running and self.owner.get(task) == before.get(task):
                continue
            self._stop(task)
            owner = self.owner.get(task)
            if owner is not None and self._missing(owner, task) <= 0:
                self._start(task)

    def restoring(self) -> dict[tuple[str, TaskId], float]:
        """The running restores: (client, task) -> remaining records."""
        return {(name, task): self._missing(name, task) for name in self.members for task in self._queue(name)}

    def settles_at(self) -> float:
        """The time when all running restores end."""
        seconds = dict.fromkeys(self.members, 0.0)
        for (name, task), records in self.restoring().items():
            seconds[name] += self._seconds(task, records)
        return self.now + 1000 * max(seconds.values(), default=0.0)

    def advance(self, until: float) -> Restored:
        """Advance the time to `until`: clients restore, and running tasks add records to their changelogs."""
        by_task: dict[tuple[str, TaskId], float] = {}
        started: dict[TaskId, float] = dict.fromkeys(self.running, self.now)
        down: dict[TaskId, float] = {}
        for name in self.members:
            clock = self.now
            for task in self._queue(name):
                missing = self._missing(name, task)
                took = min(1000 * self._seconds(task, missing), until - clock)
                done = missing if clock + 1000 * self._seconds(task, missing) <= until else self._records(task, took)
                clock += took
                self._copies[name][task].records += done
                by_task[name, task] = done
                if self.owner.get(task) == name and done == missing:
                    down[task] = clock - self._down_since[task]
                    started[task] = clock
                    self._start(task)
        for task, since in self._down_since.items():
            down[task] = until - since
        self._grow(started, until)
        self.now = until
        written = sum(records * self.tasks[task].record_bytes for (_, task), records in by_task.items())
        return Restored(sum(by_task.values()), written, by_task, {task: ms for task, ms in down.items() if ms > 0})

    def _client(self, member: Member, configs: AssignmentConfigs) -> ClientState:
        own = frozenset(task for task, owner in self.owner.items() if owner == member.name)
        return ClientState(
            process_id=ProcessId(member.name),
            num_processing_threads=member.threads,
            previous_active_tasks=own,
            previous_standby_tasks=frozenset(self._copies[member.name].keys() - own),
            client_tags={tag: member.rack for tag in configs.rack_aware_assignment_tags if member.rack is not None},
            rack_id=member.rack,
            host=member.name,
            consumer_ids=tuple(f"{member.name}-{thread}" for thread in range(1, member.threads + 1)),
        )

    def _lags(self) -> Lags:
        """The lags of all stateful tasks on all clients. The lag of a client without a copy is the whole changelog."""
        ends = {task: round(self._ends[task]) for task, simulated in self.tasks.items() if simulated.info.is_stateful}
        lags = {ProcessId(name): dict(ends) for name in self.members}
        for name, by_task in lags.items():
            by_task |= {task: round(self._missing(name, task)) for task in self._copies[name]}
        # As in Kafka Streams, the client that runs a task reports -2 instead of a lag.
        for task in self.running & ends.keys():
            lags[ProcessId(self.owner[task])][task] = LATEST_OFFSET
        return lags

    def _missing(self, name: str, task: TaskId) -> float:
        copy = self._copies[name].get(task)
        return max(self._ends[task] - (copy.records if copy else 0.0), 0.0)

    def _queue(self, name: str) -> list[TaskId]:
        actives = [task for task, owner in self.owner.items() if owner == name and task not in self.running]
        standbys = [task for task, names in self.standbys.items() if name in names]
        # Tasks that are down come first, as in Kafka Streams: its restore thread pauses standbys meanwhile.
        return sorted(actives) + sorted(task for task in standbys if self._missing(name, task) > 0)

    def _use_copies(self, task: TaskId) -> None:
        if not self.tasks[task].info.is_stateful:
            return
        users = {self.owner.get(task), *self.standbys.get(task, ())}
        for name, copies in self._copies.items():
            if name in users:
                copies.setdefault(task, Copy()).unused_since = None
            elif task in copies and copies[task].unused_since is None:
                copies[task].unused_since = self.now

    def _clean(self) -> None:
        for name in self.members:
            copies = self._copies[name]
            for task in [task for task, copy in copies.items() if _expired(copy, self.now)]:
                del copies[task]

    def _start(self, task: TaskId) -> None:
        self.running.add(task)
        self._down_since.pop(task, None)

    def _stop(self, task: TaskId) -> None:
        self.running.discard(task)
        self._down_since.setdefault(task, self.now)

    def _seconds(self, task: TaskId, records: float) -> float:
        return self._assumptions.restore.seconds(records, self.tasks[task].record_bytes)

    def _records(self, task: TaskId, milliseconds: float) -> float:
        seconds_per_record = self._seconds(task, 1.0)
        return milliseconds / 1000 / seconds_per_record if seconds_per_record else 0.0

    def _grow(self, started: Mapping[TaskId, float], until: float) -> None:
        """Grow changelogs from the time when their tasks run. Assigned copies that had caught up follow."""
        for task, since in started.items():
            if not self.tasks[task].size.records:
                continue
            before = self._ends[task]
            self._ends[task] += self._assumptions.updates * (until - since) / 1000
            for copies in self._copies.values():
                copy = copies.get(task)
                # A copy that is restoring has more records to restore.
                if copy is not None and copy.unused_since is None and copy.records >= before:
                    copy.records = self._ends[task]


def _expired(copy: Copy, now: float) -> bool:
    return copy.unused_since is not None and now - copy.unused_since >= CLEANUP_MS


# Parses the events of a simulation: `kill c2; add 3; restart c1 2m; roll`.

RESTART_MS = 30_000
"""How long a restarting client is away, by default."""

LONGEST_AWAY_MS = 365 * 86_400_000

MOST_ADDED = 1_000

FORMS = {
    "kill": "kill NAME..., or kill rack RACK",
    "add": "add NUMBER [RACK]",
    "restart": "restart NAME... [DURATION]",
    "roll": "roll [DURATION]",
}
"""The events, and their forms."""

_DURATION = re.compile(r"[0-9]+(\.[0-9]+)?(ms|s|m|h|d)")


class EventError(HeadwaterError):
    """An event that cannot be parsed or cannot happen. `event`: its text."""

    exit_code = 2

    def __init__(self, event: str, problem: str, hint: str | None = None) -> None:
        super().__init__(f"event {event!r}: {problem}", hint)
        self.event = event


@dataclass(frozen=True)
class Event:
    """One event. `kind`: a key of FORMS, which determines the used fields. `text`: as written."""

    kind: str
    text: str
    names: tuple[str, ...] = ()
    rack: str | None = None
    count: int = 0
    away_ms: int = RESTART_MS


def parse_events(text: str) -> tuple[Event, ...]:
    """The events of a text, separated by `;` or line ends. Raises EventError."""
    texts = (" ".join(part.split()) for part in re.split(r"[;\n]", text))
    return tuple(_event(event) for event in texts if event)


def _event(text: str) -> Event:
    kind, *arguments = text.split(" ")
    match kind, arguments:
        case "kill", ["rack", rack]:
            return Event(kind, text, rack=rack)
        case "kill", [first, *_] if first != "rack":
            return Event(kind, text, names=tuple(arguments))
        case "add", [number] | [number, _] if re.fullmatch("[0-9]{1,9}", number):
            if not 1 <= int(number) <= MOST_ADDED:
                raise EventError(text, f"add from 1 to {MOST_ADDED:,} clients")
            return Event(kind, text, count=int(number), rack=arguments[1] if len(arguments) > 1 else None)
        case "restart", [_, *_] if not _DURATION.fullmatch(arguments[0]):
            names, away_ms = _names_and_duration(text, arguments)
            return Event(kind, text, names=names, away_ms=away_ms)
        case "roll", [] | [_]:
            names, away_ms = _names_and_duration(text, arguments)
            if not names:
                return Event(kind, text, away_ms=away_ms)
    if kind in FORMS:
        raise EventError(text, f"the form is {FORMS[kind]}")
    raise EventError(text, f"there is no event {kind!r}", guess(kind, FORMS, f"events: {'; '.join(FORMS.values())}"))


def _names_and_duration(text: str, arguments: list[str]) -> tuple[tuple[str, ...], int]:
    """The names, and the duration after them in ms."""
    if not arguments or not _DURATION.fullmatch(arguments[-1]):
        return tuple(arguments), RESTART_MS
    try:
        away_ms = duration_ms(arguments[-1])
    except ValueError as error:  # too many digits
        raise EventError(text, str(error)) from None
    if away_ms > LONGEST_AWAY_MS:
        raise EventError(text, "a client that is away for more than a year does not come back")
    return tuple(arguments[:-1]), away_ms
