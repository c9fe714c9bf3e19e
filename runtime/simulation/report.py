"""What a simulation found: its rounds, what they come to, and what may be asserted of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..tasks.task_id import TaskId
from .fleet import Restored
from .model import Application, Assumptions, Member
from .quantities import duration_ms, shown_duration, shown_size, size_bytes


@dataclass(frozen=True)
class Placement:
    """The tasks of a client, sorted."""

    active: tuple[TaskId, ...]
    standby: tuple[TaskId, ...]


@dataclass(frozen=True)
class Move:
    """An active task on another client than before. `records`: restored for it in this round; `down_ms`: so far."""

    task: TaskId
    source: str | None
    target: str
    records: float
    down_ms: float


@dataclass(frozen=True)
class Round:
    """One assignment and the time until the next. `restoring`: client and task of what had to be restored.

    `event`: number of the event it belongs to (0: the start), `event_text` as it was written; `cause`: what this round
    in particular came of. `followup_ms`: when the assignor asked for another round. `settled`: it was the last of its
    step.
    """

    number: int
    event: int
    event_text: str
    cause: str
    at_ms: int
    until_ms: int
    clients: tuple[Member, ...]
    placements: Mapping[str, Placement]
    moves: tuple[Move, ...]
    new_standbys: int
    restoring: frozenset[tuple[str, TaskId]]
    restored: Restored
    followup_ms: int | None
    settled: bool

    @property
    def down_ms(self) -> float:
        """The longest that a task has been down without a break by the end of the round."""
        return max(self.restored.down.values(), default=0.0)

    @property
    def loads(self) -> dict[str, float]:
        """Client -> tasks for each of its threads, standbys among them."""
        return {
            client.name: (len(placed.active) + len(placed.standby)) / client.threads
            for client in self.clients
            for placed in (self.placements[client.name],)
        }

    @property
    def spread(self) -> float:
        """Between the client with most tasks for each thread and the one with least."""
        return max(self.loads.values()) - min(self.loads.values())


@dataclass(frozen=True)
class Simulation:
    """All rounds of one application."""

    application: Application
    assumptions: Assumptions
    rounds: tuple[Round, ...]

    def events(self) -> Iterator[tuple[Round, ...]]:
        """The rounds of each event, those of the start first."""
        for _, rounds in groupby(self.rounds, lambda each: each.event):
            yield tuple(rounds)

    def cross_rack(self, of: Round) -> int | None:
        """Partitions that clients read from another rack: actives their input, standbys their changelogs.

        None where racks are not known.
        """
        racks = {client.name: client.rack for client in of.clients}
        if None in racks.values():
            return None
        infos = {task.info.id: task.info for task in self.application.tasks}
        count = 0
        for name, placed in of.placements.items():
            read = [each for task in placed.active for each in infos[task].topic_partitions if each.is_source]
            read += [each for task in placed.standby for each in infos[task].topic_partitions if each.is_changelog]
            count += sum(each.racks is not None and racks[name] not in each.racks for each in read)
        return count

    def to_json(self) -> dict[str, Any]:
        """As `headwater simulate --format json` prints it. Times are ms, sizes bytes and records."""
        assumed, application = self.assumptions, self.application
        return {
            "topology": application.name,
            "assignor": application.assignor,
            "tasks": len(application.tasks),
            "measured": application.measured,
            "assumptions": {
                "restore_records_per_second": assumed.restore.records,
                "restore_bytes_per_second": assumed.restore.bytes,
                "task_records": assumed.size.records,
                "task_bytes": assumed.size.bytes,
                "updates_per_second": assumed.updates,
                "replication": assumed.replication,
            },
            "rounds": [self._round_json(each) for each in self.rounds],
            "results": {name: measure.of(self) for name, measure in MEASURES.items()},
        }

    def _round_json(self, of: Round) -> dict[str, Any]:
        return {
            "round": of.number,
            "event": of.event_text,
            "cause": of.cause,
            "at_ms": of.at_ms,
            "until_ms": of.until_ms,
            "settled": of.settled,
            "followup_ms": of.followup_ms,
            "clients": {
                client.name: {
                    "threads": client.threads,
                    "rack": client.rack,
                    "active": [str(task) for task in of.placements[client.name].active],
                    "standby": [str(task) for task in of.placements[client.name].standby],
                    "restoring": sorted(
                        (str(task) for name, task in of.restoring if name == client.name), key=_by_number
                    ),
                }
                for client in of.clients
            },
            "moves": [
                {"task": str(move.task), "from": move.source, "to": move.target, "down_ms": round(move.down_ms)}
                for move in of.moves
            ],
            "new_standbys": of.new_standbys,
            "down_ms": {str(task): round(ms) for task, ms in sorted(of.restored.down.items())},
            "restored_records": round(of.restored.records),
            "restored_bytes": round(of.restored.bytes),
            "spread": round(of.spread, 3),
            "cross_rack": self.cross_rack(of),
        }


@dataclass(frozen=True)
class Measure:
    """Something that can be asserted. `worst`: its worst value, and in which event; None: it does not apply.

    `read`: a limit as people write it; `shown`: a value as they read it; `sentence`: what it says of an event.
    """

    help: str
    worst: Callable[[Simulation], tuple[float, str] | None]
    read: Callable[[str], float]
    shown: Callable[[float], str]
    sentence: str

    def of(self, simulation: Simulation) -> float | None:
        """The worst value."""
        found = self.worst(simulation)
        return None if found is None else round(found[0], 3)


@dataclass(frozen=True)
class Assertion:
    """`max_moved=5`, of one simulation. `value`: None where it does not apply; such an assertion does not hold."""

    name: str
    limit: float
    value: float | None
    sentence: str

    @property
    def holds(self) -> bool:
        """Whether the limit was kept."""
        return self.value is not None and self.value <= self.limit


def check(simulation: Simulation, name: str, limit: float) -> Assertion:
    """Hold a simulation against a limit of MEASURES."""
    measure, found = MEASURES[name], MEASURES[name].worst(simulation)
    topology = simulation.application.name
    if found is None:
        return Assertion(name, limit, None, f"{topology}: {name} needs racks")
    value, event = found
    said = measure.sentence.format(value=measure.shown(value), event=event)
    return Assertion(name, limit, value, f"{topology}: {said}; {name} is {measure.shown(limit)}")


def _each_event(value: Callable[[tuple[Round, ...]], float]) -> Callable[[Simulation], tuple[float, str]]:
    """The first of the worst events, by the value of its rounds."""

    def worst(simulation: Simulation) -> tuple[float, str]:
        return max(((value(rounds), rounds[0].event_text) for rounds in simulation.events()), key=lambda each: each[0])

    return worst


def _cross_rack(simulation: Simulation) -> tuple[float, str] | None:
    found = [(simulation.cross_rack(rounds[-1]), rounds[-1].event_text) for rounds in simulation.events()]
    known = [(float(count), event) for count, event in found if count is not None]
    return max(known, key=lambda each: each[0]) if len(known) == len(found) else None


def _count(text: str) -> float:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a whole number")
    return float(text)


def _number(text: str) -> float:
    if not text.replace(".", "", 1).isdigit():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _duration(text: str) -> float:
    """Of seconds, where there is no unit."""
    return float(duration_ms(text if not text.replace(".", "", 1).isdigit() else f"{text}s"))


def _plain(value: float) -> str:
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


MEASURES: Mapping[str, Measure] = {
    "max_moved": Measure(
        "active tasks that change their client in one event",
        _each_event(lambda rounds: sum(len(each.moves) for each in rounds)),
        _count,
        _plain,
        "tasks moved in '{event}': {value}",
    ),
    "max_downtime": Measure(
        "the longest that a task is down without a break",
        _each_event(lambda rounds: max(each.down_ms for each in rounds)),
        _duration,
        shown_duration,
        "longest downtime of a task in '{event}': {value}",
    ),
    "max_restored": Measure(
        "bytes restored in one event",
        _each_event(lambda rounds: sum(each.restored.bytes for each in rounds)),
        size_bytes,
        shown_size,
        "restored in '{event}': {value}",
    ),
    "max_rounds": Measure(
        "rounds of assignment that one event takes",
        _each_event(len),
        _count,
        _plain,
        "rounds of '{event}': {value}",
    ),
    "max_spread": Measure(
        "tasks for each thread, standbys among them, of the fullest client beyond the emptiest, once an event is over",
        _each_event(lambda rounds: rounds[-1].spread),
        _number,
        _plain,
        "difference between clients after '{event}', in tasks for each thread: {value}",
    ),
    "max_cross_rack": Measure(
        "partitions read from another rack, once an event is over",
        _cross_rack,
        _count,
        _plain,
        "partitions read from another rack after '{event}': {value}",
    ),
}
"""What can be asserted, by name."""


def _by_number(task: str) -> tuple[int, ...]:
    return tuple(map(int, task.split("_")))


def unsettled(simulations: Iterable[Simulation]) -> list[str]:
    """A sentence for each event that did not come to rest."""
    return [
        f"{simulation.application.name}: '{rounds[-1].event_text}' has not settled after {len(rounds)} rounds"
        for simulation in simulations
        for rounds in simulation.events()
        if not rounds[-1].settled
    ]
