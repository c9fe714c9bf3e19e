"""The worker of a stage: the log and the stores for an epoch's plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ir.topology import GlobalTable, Store
from ..log.log import Log, Writer
from ..log.ranges import RangeReader
from ..state.process_file import fence
from ..state.processor_state_manager import TaskStores
from ..state.store import StateStore, StoreBackend
from ..tasks.plan import EpochPlan, TaskPlan

if TYPE_CHECKING:
    from .execution.kafka import KafkaAccess


class PlannedWorker:
    """A `stage.Worker`. Stores stay open for the next epoch in this process.

    `kafka`: for operators on topics in Kafka; None in a target without Kafka.
    """

    def __init__(
        self,
        plan: EpochPlan,
        log: Log,
        writer: Writer,
        backend: Callable[[Store], StoreBackend],
        kafka: KafkaAccess | None = None,
    ) -> None:
        self.plan = plan
        self.log: RangeReader = log if kafka is None else kafka.reader(log)
        self.writer = writer
        self.kafka = kafka
        self._stores = TaskStores(plan, log, backend)

    def fence(self) -> None:
        """Raise an error unless the plan is for the state directory's client process and its newest assignment."""
        fence(self._stores.directory, self.plan.process_id, self.plan.assignment)

    def store(self, task: TaskPlan, store: Store) -> StateStore:
        """The task's partition of a store, restored up to its planned position."""
        return self._stores.open(task, store)

    def global_table(self, table: GlobalTable) -> StateStore:
        """A global table, restored up to its planned position."""
        return self._stores.open_global(table)
