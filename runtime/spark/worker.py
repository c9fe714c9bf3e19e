"""What a stage finds where it runs: in a Python worker of Spark, with the plan that the job carries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from ..chosen_plugins import ChosenPlugins
from ..dataclass_json import from_json
from ..stages.worker import PlannedWorker
from ..tasks.plan import EpochPlan
from ..topology import PluginRef

PLAN_PROPERTY = "headwater.plan"
"""The job-local property by which a plan reaches the workers: it may change while the query plan stays."""


@contextmanager
def spark_worker() -> Iterator[PlannedWorker]:
    """The worker of the Spark task that calls. Stores stay open for the next epoch of this process."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a stage runs inside a Spark task")
    plan = _plan(context.getLocalProperty(PLAN_PROPERTY) or "")
    plugins = ChosenPlugins(plan.plugins)
    yield PlannedWorker(plan, plugins.log(PluginRef(*plan.log)), plugins.backend)


@lru_cache(maxsize=1)
def _plan(text: str) -> EpochPlan:
    return from_json(EpochPlan, text)
