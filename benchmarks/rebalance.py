"""How long the driver takes to give 10,000 tasks to their clients: to place them, and to move its tasks.

    python -m benchmarks.rebalance [--tasks 10000] [--clients 1 50] [--times 5]

`first`: nobody has anything. `repeated`: everybody keeps what it has. `moved`: half of each client's tasks go to the
next client. `lost_all`: the clients were lost, are found, and are given their tasks again. Each time the assignor is
asked (`place`), and what it says is carried out by the clients' TaskManagers and readers. What clients are asked to do
with their stores is answered at once, so the figure is the driver's own time. Prints a JSON line with the medians.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path

from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.ir.topology import Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import GenerationRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.assigned import Assigned
from headwater.runtime.placing.place import Client, Member, place
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.planner import Planner
from headwater.runtime.restore.linked_stores import LinkedStores
from headwater.runtime.restore.requests import StateLocation, StateRequest, StateResponse, StoreResponse
from headwater.runtime.restore.store_changelog_reader import Errors, StoreChangelogReader
from headwater.runtime.task_id import StoreId, TaskId, TopicPartition
from headwater.runtime.tasks.task_manager import DeclaredTask, TaskManager

from .common import medians, print_line, seconds
from .restore import NoCommits, Unheard

SUBTOPOLOGIES = 10


class AtOnce:
    """The link to an executor that has done everything as soon as it is asked."""

    threads = 2

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        return [
            StateResponse(stores=tuple(StoreResponse(each.store, 0) for each in request.stores)) for request in requests
        ]


def submit(work: Callable[[], Errors]) -> Future[Errors]:
    """Runs a slice at once."""
    future: Future[Errors] = Future()
    future.set_result(work())
    return future


class Fleet:
    """Clients of `topology`, as the driver has them."""

    def __init__(self, root: Path, topology: Topology, clients: int) -> None:
        log = EmbeddedLog(root / "log")
        state = LogState.load(log.commits(topology.application))
        state.commit(GenerationRecord(1, 0, TopologyDescription.from_topology(topology)))
        self._topology = topology
        self._committed = Committed(log, topology)
        planner = Planner(self._committed, 1000)
        self._parts = {part.number: part for part in topology.subtopologies}
        self.managers: dict[str, TaskManager] = {}
        self.clients = [Client(f"client-{number}", 2, process_id=f"{number:08}") for number in range(clients)]
        for client in self.clients:
            location = StateLocation(str(root / "state"), topology.application, client.name)
            stores = LinkedStores(client.name, AtOnce(), location, planner, topology.subtopologies, {})
            reader = StoreChangelogReader(stores, submit, Unheard())
            self.managers[client.name] = TaskManager(client.name, stores, reader, NoCommits(), cache(self._declared))

    def rebalance(self, moved: bool = False) -> Assigned:
        """Place all tasks, and carry it out; `moved`: half of what each client should have goes to the next one."""
        members = [Member(client, self._held(client)) for client in self.clients]
        assigned = place(self._topology, members, self._committed.own, HighAvailability())
        active = {name: list(tasks) for name, tasks in assigned.active.items()}
        if moved:
            names = list(active)
            halves = {name: tasks[len(tasks) // 2 :] for name, tasks in active.items()}
            for number, name in enumerate(names):
                kept = active[name][: len(active[name]) // 2]
                active[name] = kept + halves[names[number - 1]]
        for name, manager in self.managers.items():
            manager.handle_revocation({task.id for task in manager.active} - set(active[name]))
        for name, manager in self.managers.items():
            manager.handle_rebalance_start()
            manager.handle_assignment(tuple(active[name]), assigned.standby[name])
            manager.handle_rebalance_complete()
            while not manager.try_to_complete_restoration():
                pass
        return assigned

    def regain_all(self) -> None:
        """Lose all clients, find them, and give them their tasks again."""
        for manager in self.managers.values():
            manager.handle_lost_all()
        self.rebalance()

    def _held(self, client: Client) -> dict[StoreId, int]:
        tasks = self.managers[client.name].active
        return {StoreId(store, task.id.partition): 0 for task in tasks for store in task.stores}

    def _declared(self, task: TaskId) -> DeclaredTask:
        part = self._parts[task.subtopology]
        inputs = frozenset(TopicPartition(topic.name, task.partition) for topic in part.sources)
        return DeclaredTask(tuple(store.name for store in part.stores), inputs)


def topology_of(tasks: int) -> Topology:
    """Ten subtopologies, each with a topic and a store."""
    partitions = tasks // SUBTOPOLOGIES
    parts = [
        Subtopology(
            number,
            f"part-{number}",
            partitions,
            lambda tasks, _: tasks,
            (Topic(f"records-{number}", partitions, "k string", "v bigint"),),
            (),
            (Store(f"totals-{number}", partitions, "k string", "total bigint"),),
        )
        for number in range(SUBTOPOLOGIES)
    ]
    return Topology("benchmark", "totals", "1", "hash", tuple(parts))


def measure(tasks: int, clients: int) -> dict[str, float]:
    """Seconds of each rebalance."""
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
        fleet = Fleet(Path(folder), topology_of(tasks), clients)
        figures = {"first": seconds(fleet.rebalance), "repeated": seconds(fleet.rebalance)}
        if clients > 1:
            figures["moved"] = seconds(lambda: fleet.rebalance(moved=True))
        return figures | {"lost_all": seconds(fleet.regain_all)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args(arguments)
    for clients in options.clients:
        runs = [measure(options.tasks, clients) for _ in range(options.times)]
        figures = {what: round(each, 3) for what, each in medians(runs).items()}
        print_line({"entry": "rebalance_10k", "tasks": options.tasks, "clients": clients}, figures)


if __name__ == "__main__":
    main()
