"""What a stage finds where it runs: in a Python worker of Spark, with the plan that the job carries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from ..chosen_plugins import Plugged
from ..dataclass_json import from_json
from ..log.log import Log
from ..state.store import StateStore
from ..state.task_stores import TaskStores
from ..tasks.plan import EpochPlan, TaskPlan
from ..topology import GlobalTable, PluginRef, Store

PLAN_PROPERTY = "headwater.plan"
"""The job-local property by which a plan reaches the workers: it may change while the query plan stays."""


class SparkWorker:
    """See `operators.stage.Worker`."""

    def __init__(self, plan: EpochPlan) -> None:
        self.plan = plan
        plugged = Plugged(plan.plugins)
        self.log: Log = plugged.log(PluginRef(*plan.log))
        self._stores = TaskStores(plan, self.log, plugged.backend)

    def store(self, task: TaskPlan, store: Store) -> StateStore:
        """The task's partition of a store, caught up to its planned position."""
        return self._stores.open(task, store)

    def global_table(self, table: GlobalTable) -> StateStore:
        """A global table, caught up to its planned position."""
        return self._stores.open_global(table)


@contextmanager
def spark_worker() -> Iterator[SparkWorker]:
    """The worker of the Spark task that calls. Stores stay open for the next epoch of this process."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a stage runs inside a Spark task")
    yield SparkWorker(_plan(context.getLocalProperty(PLAN_PROPERTY) or ""))


@lru_cache(maxsize=1)
def _plan(text: str) -> EpochPlan:
    return from_json(EpochPlan, text)
