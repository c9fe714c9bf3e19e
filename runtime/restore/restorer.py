"""Restores a client's stores to what is committed: plans the work, and sends it to where the stores are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ...errors import HeadwaterError
from ..log.ranges import LogRange
from ..progress.planner import Planner
from ..tasks.errors import TaskCorruptedError, TaskMigratedError
from ..tasks.task_id import StoreId, TaskId
from ..tasks.task_manager import Progress
from ..topology import Store, Subtopology
from .links import StateLink
from .requests import StateLocation, StateRequest, StoreAnswer, StoreFailure, StoreTarget, What

WORK_PER_REQUEST = 262_144
"""The cost limit of one request, in changelog records. It takes about a second."""

_COST_OF_RANGE = 256
"""The cost of a range in records: a file is opened, and its place is sent with the request."""


class StateError(HeadwaterError):
    """A client could not process its stores: `client`, `cause`."""

    def __init__(self, client: str, failure: StoreFailure) -> None:
        super().__init__(f"stores of {client}: {failure.message}", failure.hint or None)
        self.client = client
        self.cause = failure.message


class StoreRestorer:
    """A TaskRestorer over a link to a client. `held`: the positions of its stores; missing ones are empty.

    It tracks each store's position, as long as nobody else works on the stores. `note` tells it what epochs have
    applied. `report` is called with each store that was damaged or has lost its rows.
    """

    def __init__(
        self,
        client: str,
        link: StateLink,
        location: StateLocation,
        planner: Planner,
        parts: Sequence[Subtopology],
        held: Mapping[StoreId, int],
        report: Callable[[StoreAnswer], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._link = link
        self._location = location
        self._planner = planner
        self._stores = {part.number: part.stores for part in parts}
        self._positions = dict(held)
        self._report = report

    def note(self, partition: int, applied: Mapping[str, int]) -> None:
        """Record that epochs have brought stores of a partition to these positions."""
        self._positions.update({StoreId(store, partition): position for store, position in applied.items()})

    def open(self, tasks: Collection[TaskId]) -> Mapping[TaskId, Mapping[str, int]]:
        """The known positions. A store is created only when there is something to write to it."""
        return {task: self._known(task) for task in tasks}

    def restore(self, tasks: Collection[TaskId]) -> Mapping[TaskId, Progress | Exception]:
        """Do one round of restoring: at most one request of limited cost for each thread of the client."""
        shares: list[list[StoreTarget]] = [[] for _ in range(self._link.threads)]
        room = [WORK_PER_REQUEST] * len(shares)
        targets = {task: [self._target(task, store) for store in self._declared(task)] for task in tasks}
        for task, wanted in targets.items():
            for store, each in zip(self._declared(task), wanted, strict=True):
                thread = max(range(len(room)), key=room.__getitem__)
                if each.input.applied != each.input.position and room[thread] > 0:
                    # All at once without a changelog: a store that has lost its rows jumps to its full target
                    # in one request (`start_empty`).
                    part, cost = _first(each, room[thread] if store.changelog else None)
                    shares[thread].append(part)
                    room[thread] -= cost
        errors = self._ask("restore", [share for share in shares if share])
        return {
            task: self._error(task, errors) or Progress(self._known(task), all(map(self._stands, wanted)))
            for task, wanted in targets.items()
        }

    def recover(self, tasks: Collection[TaskId]) -> Mapping[TaskId, Mapping[str, int]]:
        """Repair stores after damage was found in an epoch: read all of them, and restore those that are behind.

        Raises the error of a store.
        """
        for error in self._ask("look", self._dealt(tasks)).values():
            raise error
        left = list(tasks)
        while left:
            progress = self.restore(left)
            for found in progress.values():
                if isinstance(found, Exception):
                    raise found
            left = [task for task, found in progress.items() if isinstance(found, Progress) and not found.done]
        return {task: self._known(task) for task in tasks}

    def close(self, tasks: Collection[TaskId], *, clean: bool) -> Mapping[TaskId, Exception]:
        """Close the stores. If `clean`, first apply everything committed, remove expired rows, and sync."""
        failed: dict[TaskId, Exception] = {}
        left = list(tasks) if clean else []
        while left:
            progress = self.restore(left)
            failed |= {task: found for task, found in progress.items() if isinstance(found, Exception)}
            left = [task for task, found in progress.items() if isinstance(found, Progress) and not found.done]
        if clean or self._link.in_driver:  # workers of an executor keep files open, clean or not
            ready = [task for task in tasks if task not in failed]
            errors = self._ask("close" if clean else "let_go", self._dealt(ready))
            failed |= {task: error for task in ready if (error := self._error(task, errors))}
        return failed

    def wipe(self, tasks: Collection[TaskId]) -> None:
        """Remove the stores. Raises StateError."""
        errors = self._ask("wipe", self._dealt(tasks))
        for error in errors.values():
            raise error

    def _ask(self, what: What, shares: Iterable[Sequence[StoreTarget]]) -> dict[StoreId, Exception]:
        """Send the requests. Returns the errors by store. Raises StateError if a whole request failed."""
        errors: dict[StoreId, Exception] = {}
        for answer in self._link.ask([StateRequest(what, self._location, tuple(share)) for share in shares]):
            if answer.failure is not None:
                raise StateError(self._client, answer.failure)
            for each in answer.stores:
                store = StoreId(each.store, each.partition)
                self._positions[store] = each.position
                if each.damage or each.lost:
                    self._report(each)
                if each.failure is not None:
                    errors[store] = self._raised(store, each.failure)
        return errors

    def _dealt(self, tasks: Iterable[TaskId]) -> list[list[StoreTarget]]:
        """The stores of all tasks, dealt to the threads of the client."""
        everything = [self._target(task, store) for task in tasks for store in self._declared(task)]
        shares = (everything[thread :: self._link.threads] for thread in range(self._link.threads))
        return [share for share in shares if share]

    def _target(self, task: TaskId, store: Store) -> StoreTarget:
        applied = self._positions.get(StoreId(store.name, task.partition), 0)
        clocks = self._planner.clocks(task.name, task.partition)
        return StoreTarget(task.partition, self._planner.store(store, task.partition, applied, clocks))

    def _declared(self, task: TaskId) -> Sequence[Store]:
        return self._stores[task.subtopology]

    def _known(self, task: TaskId) -> dict[str, int]:
        return {
            store.name: self._positions.get(StoreId(store.name, task.partition), 0) for store in self._declared(task)
        }

    def _stands(self, target: StoreTarget) -> bool:
        return self._positions.get(StoreId(target.input.store, target.partition), 0) == target.input.position

    def _error(self, task: TaskId, errors: Mapping[StoreId, Exception]) -> Exception | None:
        """The error of a task: that of its first store that has one."""
        ids = (StoreId(store.name, task.partition) for store in self._declared(task))
        return next((errors[store] for store in ids if store in errors), None)

    def _raised(self, store: StoreId, failure: StoreFailure) -> Exception:
        match failure.kind:
            case "corrupted":
                return TaskCorruptedError(failure.message, store=store.store)
            case "migrated":
                return TaskMigratedError(failure.message, failure.expected, failure.found)
        return StateError(self._client, failure)


def _first(target: StoreTarget, room: int | None) -> tuple[StoreTarget, int]:
    """The first part of the work, up to a cost of about `room`, and its cost. None: all of the work."""
    kept: list[LogRange] = []
    cost, position = 0, target.input.applied
    for each in target.input.ranges:
        if room is not None and cost >= room:
            return replace(target, input=replace(target.input, ranges=tuple(kept), position=position)), cost
        end = min(each.end, target.input.position)
        kept.append(each)
        cost += _COST_OF_RANGE + min(end - position, each.records)
        position = end
    return target, cost
