"""The plan, the log and the stores of a stage in a Python worker of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from ...chosen_plugins import ChosenPlugins
from ...dataclass_json import from_json
from ...engine.worker import PlannedWorker
from ...ir.topology import PluginRef
from ...tasks.plan import EpochPlan

PLAN_PROPERTY = "headwater.plan"
"""The job-local property with the plan for the workers. It changes while the query plan stays the same."""


@contextmanager
def spark_worker() -> Iterator[PlannedWorker]:
    """The worker of the calling Spark task. Stores stay open for the next epoch in this process."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a stage runs inside a Spark task")
    plan = _plan(context.getLocalProperty(PLAN_PROPERTY) or "")
    plugins = ChosenPlugins(plan.plugins)
    log = plugins.log(PluginRef(*plan.log), plan.places)
    with log.writer() as writer:
        yield PlannedWorker(plan, log, writer, plugins.backend, plugins.kafka(plan))


# All tasks and stages of a job in this process have the same plan; parsing it once is enough.
@lru_cache(maxsize=1)
def _plan(text: str) -> EpochPlan:
    return from_json(EpochPlan, text)
