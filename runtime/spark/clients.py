"""The clients of a Spark session: its executors, or virtual clients of the driver in local mode."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import HeadwaterError
from ..placing.client import Client, Executor
from ..state.directories.process_file import Owner
from ..topology import Settings
from .placed_rows import executors
from .watching.executor_watch import clients as executor_clients

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SETTLING_SECONDS = 1.5
"""If the number of executors is unknown: how long no new one must come until those present count as all."""

REGISTERING_SECONDS = 60.0
"""The age of a Spark application from which an executor that has not come is no longer waited for."""

FIRST_SECONDS = 300.0
"""How long the first executor may take, as a cluster may have to start machines or load images for it."""


class NoExecutorsError(HeadwaterError):
    """A cluster started no executor in time. `master`: the cluster."""

    def __init__(self, master: str) -> None:
        super().__init__(
            f"{master} has started no executor within {FIRST_SECONDS / 60:.0f} minutes",
            "look at the cluster's free resources",
        )
        self.master = master


def clients_of(session: SparkSession, count: int) -> tuple[Client, ...]:
    """The clients of a session by name: its executors, or in local mode `count` virtual ones that share the cores.

    Waits for the executors of a cluster, which register one by one. Raises NoExecutorsError if none comes.
    """
    if not has_executors(session.sparkContext.master):
        cores = session.sparkContext.defaultParallelism
        names = [f"client-{number}" for number in range(1, count + 1)]
        return tuple(Client(name, max(1, cores // count), folder=name) for name in names)
    return executor_clients(_registered(session))


def has_executors(master: str) -> bool:
    """Whether a master runs the work on executors, which keep state on their own machines' disks."""
    return not master.startswith("local") or master.startswith("local-cluster")


def local_state(settings: Settings) -> Path | None:
    """The folder of the stores, if clients run on this machine; None if executors keep them on theirs.

    If this process has a session, its master decides, because a run uses that session whatever the profile says.
    Otherwise the profile decides.
    """
    spark: Any = sys.modules.get("pyspark")
    context = None if spark is None else spark.SparkContext._active_spark_context
    master = str(settings.spark.get("master", "local")) if context is None else context.master
    return None if has_executors(master) else Path(settings.state_dir)


def _registered(session: SparkSession) -> dict[str, Executor]:
    """The executors, once all that the application asked for have come, or no more come."""
    begun = settled = time.monotonic()
    age = time.time() - session.sparkContext.startTime / 1000
    asked = asked_for(session.sparkContext.master, dict(session.sparkContext.getConf().getAll()))
    found = executors(session)
    while asked is None or len(found) < asked:
        now = time.monotonic()
        if not found and now - begun > FIRST_SECONDS:
            raise NoExecutorsError(session.sparkContext.master)
        overdue = asked is None or age + now - begun > REGISTERING_SECONDS
        if found and overdue and now - settled > SETTLING_SECONDS:
            break
        time.sleep(0.05)
        before, found = found, executors(session)
        if found.keys() != before.keys():
            settled = time.monotonic()
    return found


def asked_for(master: str, settings: Mapping[str, str]) -> int | None:
    """How many executors a Spark application asks its cluster for; None if its settings do not say.

    `settings`: Spark's, by their full names. Source: Spark's configuration page. A standalone cluster starts as many as
    `spark.cores.max` has room for. With dynamic allocation it is what Spark begins with; more may join later.
    """
    if settings.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        first = ("dynamicAllocation.minExecutors", "dynamicAllocation.initialExecutors", "executor.instances")
        return max(int(settings.get(f"spark.{name}", 0)) for name in first) or None
    if local := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,.*\]", master):
        return int(local[1])
    if "spark.executor.instances" in settings:
        return int(settings["spark.executor.instances"])
    if {"spark.cores.max", "spark.executor.cores"} <= settings.keys():
        return int(settings["spark.cores.max"]) // int(settings["spark.executor.cores"]) or None
    return None


def driver_jvm(session: SparkSession) -> Owner | None:
    """The process that runs the workers of virtual clients; None if this machine cannot see it."""
    jvm: Any = session.sparkContext._jvm
    return Owner.of(jvm.java.lang.ProcessHandle.current().pid())
