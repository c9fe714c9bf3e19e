"""Applications and assignors to simulate in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.runtime.assignment.assignor import (
    AssignedTask,
    AssignmentError,
    ClientAssignment,
    TaskAssignment,
    TaskAssignor,
    TaskType,
)
from headwater.runtime.assignment.balanced import BalancedCount
from headwater.runtime.assignment.cluster import (
    ApplicationState,
    AssignmentConfigs,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
)
from headwater.runtime.simulation.fleet import parse_events
from headwater.runtime.simulation.model import Application, Assumptions, Rate, SimulatedTask, Size, members
from headwater.runtime.simulation.report import Simulation
from headwater.runtime.simulation.rounds import Simulator
from headwater.runtime.task_id import TaskId

STILL = Assumptions(restore=Rate(records=100), updates=0.0)
"""100 records a second, and nothing new."""


def task(partition: int, records: int = 1_000, rack: str | None = None) -> SimulatedTask:
    """Task 0_<partition>, of 10 bytes a record; without state where there are no records."""
    racks = None if rack is None else frozenset({rack})
    partitions = [TaskTopicPartition("in", partition, True, False, racks)]
    if records:
        partitions.append(TaskTopicPartition("log", partition, False, True, racks))
    info = TaskInfo(TaskId(0, partition), frozenset({"s"} if records else ()), frozenset(partitions))
    return SimulatedTask(info, Size(records, 10 * records))


def simulate(
    tasks: list[SimulatedTask],
    events: str = "",
    clients: int = 2,
    assignor: Callable[[], TaskAssignor] = BalancedCount,
    assumptions: Assumptions = STILL,
    racks: tuple[str, ...] = (),
    threads: int = 1,
    configs: AssignmentConfigs | None = None,
) -> Simulation:
    application = Application("demo", "test", configs or AssignmentConfigs(), tuple(tasks))
    simulator = Simulator(application, assignor, members(clients, threads, racks), assumptions, racks)
    return simulator.run(parse_events(events))


class Scripted:
    """Places as `answers` say, one after the other and the last for ever; asks for a follow-up after `pauses` ms.

    Clients that an answer does not name have nothing. `seen`: the states it was asked about; `lags`: theirs, by client.
    """

    def __init__(self, *answers: Mapping[str, tuple[str, str]], pauses: tuple[int | None, ...] = ()) -> None:
        self.answers = list(answers)
        self.pauses = list(pauses)
        self.seen: list[ApplicationState] = []
        self.lags: list[dict[str, dict[str, int]]] = []

    def __call__(self) -> Scripted:
        return self

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        self.seen.append(application_state)
        clients = application_state.client_states(compute_task_lags=True)
        self.lags.append(
            {name: {str(task): lag for task, lag in (of.lags or {}).items()} for name, of in clients.items()}
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        pause = self.pauses.pop(0) if self.pauses else None
        deadline = None if pause is None else application_state.now_ms + pause
        return TaskAssignment(
            [
                ClientAssignment(
                    ProcessId(client),
                    [AssignedTask(TaskId.parse(each), TaskType.ACTIVE) for each in active.split()]
                    + [AssignedTask(TaskId.parse(each), TaskType.STANDBY) for each in standby.split()],
                    deadline,
                )
                for client in application_state.clients
                for active, standby in (answer.get(client, ("", "")),)
            ]
        )

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        pass
