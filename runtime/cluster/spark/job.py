"""The Spark job of an epoch, and the clients of a session."""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError
from ...dataclass_json import from_json, to_json
from ...driver.cluster import MOST_TRIED, Failing, Trial, named_by
from ...engine.failed_stage import Facts
from ...engine.steps import stateless_stages
from ...ir.topology import Settings, Subtopology
from ...placing.place import Client, ClientLostError, Executor
from ...records.names import quote
from ...state.process_file import Owner
from ...task_id import TaskKey
from ...tasks.measured import TaskOutcome
from ...tasks.plan import EpochPlan, TaskPlan
from .engine import SparkEngine, built, cancel, class_name, executors, items, placed
from .failing import marked, optimized, written
from .sql_steps import checked_text
from .watching import clients as executor_clients
from .worker import PLAN_PROPERTY
from .worker_errors import cause_of, facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_numbers = itertools.count()


class SparkJob:
    """An EpochJob: one narrow Spark job for all tasks of a subtopology on a client. The first error ends it.

    Its query plan is built once and run in every epoch.
    """

    def __init__(
        self, session: SparkSession, part: Subtopology, client: Client, group: str, in_tasks: bool = False
    ) -> None:
        self._session = session
        self._part = part
        self._client = client
        rows = built(part, placed(session, client.threads, client.executor), in_tasks)
        self._marked: DataFrame = marked(rows) if part.skips_records else rows
        self._in_tasks = in_tasks
        self._in_sql: DataFrame | None = None if in_tasks else rows
        self._stateless = stateless_stages(part)
        self._trial_rows: DataFrame | None = None
        self._group = f"{group}/{part.name}/{client.name} {next(_numbers)}"
        self._running = self._group
        self._given_up = False

    @property
    def _rows(self) -> DataFrame:
        """The query plan with all expressions in Spark SQL, which can name the cause of every failing record."""
        if self._in_sql is None:
            self._in_sql = built(self._part, placed(self._session, self._client.threads, self._client.executor))
        return self._in_sql

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        self._set(plan)
        return tuple(from_json(TaskOutcome, row[0]) for row in self._marked.collect())

    def try_each(self, plan: EpochPlan, tasks: Sequence[TaskPlan]) -> Trial:
        """In one job, started in their order as threads become free."""
        if self._trial_rows is None:
            self._trial_rows = built(self._part, placed(self._session, MOST_TRIED, self._client.executor))
        threads = [(task,) for task in tasks] + [()] * (MOST_TRIED - len(tasks))
        group = f"{self._group}/trial {next(_numbers)}"
        self._set(replace(plan, threads=tuple(threads), trial=True), group)
        try:
            self._trial_rows.collect()
        except Exception as error:  # any error of a user's expression or function
            ended = self._ended(group)
            passed = tuple(number for number, fine in ended.items() if fine and number < len(tasks))
            failed = min((number for number, fine in ended.items() if not fine), default=0)
            return Trial(passed, (failed, error))
        return Trial(tuple(range(len(tasks))), None)

    def failing(self, plan: EpochPlan) -> tuple[Failing, ...]:
        """Check the SQL steps in order, only on records that have passed the steps before; then the Python stages."""
        failing_numbers: list[int] = []
        for expressions in optimized(self._rows):
            self._set(plan.with_trial_records(failing_numbers, only=False))
            try:
                failing = expressions.failing()
            except Exception as error:  # not of an expression: an earlier Python stage may name the record
                return self._told(plan, failing_numbers) or named_by(self._refused(error), plan)
            if failing and not self._stateless[expressions.stages - 1]:
                return self._told(plan, failing_numbers) or self._first(plan, min(failing))
            failing_numbers += failing
        if failing_numbers:
            return self._told(plan, failing_numbers)
        self._set(plan)
        try:
            self._rows.collect()
        except Exception as error:
            return named_by(self._refused(error), plan)
        return self._failing_in_tasks(plan) if self._in_tasks else ()

    def _failing_in_tasks(self, plan: EpochPlan) -> tuple[Failing, ...]:
        """Records for which a task fails, but not Spark, which evaluates a later filter first."""
        steps = self._part.build(
            placed(self._session, self._client.threads, self._client.executor),
            replace(SparkEngine.of(self._part, True), skips_records=False),
        )
        self._set(plan)
        try:
            steps.collect()
        except Exception as error:
            facts = self._refused(error)
            return self._told(plan, facts.numbers, certain=False) or named_by(facts, plan)
        return ()

    def _refused(self, error: Exception) -> Facts:
        """The metadata of an error in a trial. Raises the error if no record can be the cause."""
        facts = self.facts(error)
        if facts.kind in ("step", "unknown", "crashed"):
            return facts
        raise error

    def reasons(self, plan: EpochPlan, failed: Mapping[TaskKey, Sequence[int]]) -> tuple[Failing, ...]:
        """Run the steps on these records alone; then, as joins may need others, on all; then on single records."""
        numbers = [plan.first_number(task) + number for task, mine in failed.items() for number in mine]
        failing = self._reasons(plan, numbers, {}, alone=True)
        if len(failing) < len(numbers):
            failing = self._reasons(plan, numbers, failing, alone=False)
        return tuple(failing[number] if number in failing else self._reason(plan, number) for number in numbers)

    def _reason(self, plan: EpochPlan, number: int) -> Failing:
        """The cause for a record for which a step fails only in the optimized plan."""
        self._set(plan.with_trial_records([number], only=True))
        try:
            self._rows.collect()
            cause = "a step cannot process it"
        except Exception as error:
            cause = self._refused(error).cause
        return Failing.numbered(number, plan, "", cause)

    def _told(self, plan: EpochPlan, numbers: Sequence[int], certain: bool = True) -> tuple[Failing, ...]:
        """The failing records with their steps and causes. `certain`: they fail also without the others."""
        failing = self._reasons(plan, numbers, {}, alone=certain)
        return tuple(replace(failing[number], certain=certain) for number in numbers if number in failing)

    def _first(self, plan: EpochPlan, number: int) -> tuple[Failing, ...]:
        """The first failing record behind a store, with its step and cause."""
        task, count = plan.locate(number)
        return self._told(plan.with_max_records_of(task, count + 1), [number], certain=False)

    def _reasons(
        self, plan: EpochPlan, numbers: Sequence[int], known_failing: Mapping[int, Failing], *, alone: bool
    ) -> dict[int, Failing]:
        """Number -> step and cause of these records, as far as steps name them. `alone`: steps get no other records.

        `known_failing`: the result so far. No step gets these records.
        """
        failing = dict(known_failing)
        for expressions in written(self._rows):
            left = {number for number in numbers if number not in failing}
            if not left:
                break
            self._set(
                plan.with_trial_records(left, only=True) if alone else plan.with_trial_records(failing, only=False)
            )
            for row in expressions.errors():
                if row.number in left and row.number not in failing:
                    step, cause = expressions.step, cause_of(row.error)
                    failing[row.number] = Failing.numbered(row.number, plan, step, cause)
        return failing

    def steps(self) -> Sequence[tuple[str, Callable[[EpochPlan], None]]]:
        """The SQL steps, each as the prefix of the query plan that ends with it."""
        return [(at, partial(self._drain, rows)) for at, rows in _sql_steps(self._rows)]

    def facts(self, error: Exception) -> Facts:
        return facts_of(error)

    def cancel(self) -> None:
        self._given_up = True
        cancel(self._session, self._running)

    def _drain(self, rows: DataFrame, plan: EpochPlan) -> None:
        """Run a part of the query plan for its errors: it computes all columns and drops them.

        Strings that are not UTF-8 are errors, as where rows leave Spark (`pipe.TextError`).
        """
        from pyspark.sql import functions

        self._set(plan)
        checked = [
            checked_text(functions.col(quote(field.name)), field.dataType).alias(f"_{number}")
            for number, field in enumerate(rows.schema)
        ]
        rows.select(*checked).write.format("noop").mode("overwrite").save()

    def _ended(self, group: str) -> dict[int, bool]:
        """Number -> success of the Spark tasks of a job group that were not cancelled."""
        context = self._session.sparkContext
        scala: Any = context._jsc.sc()
        scala.listenerBus().waitUntilEmpty()  # the status store is updated asynchronously
        ended: dict[int, bool] = {}
        tracker = context.statusTracker()
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                ended |= {
                    task.index(): task.status() == "SUCCESS"
                    for task in items(scala.statusStore().taskList(stage, 0, MOST_TRIED))
                    if task.status() in ("SUCCESS", "FAILED")
                }
        return ended

    def _set(self, plan: EpochPlan, group: str | None = None) -> None:
        """Set the plan of the next job of the calling thread: jobs of several units run in parallel."""
        self._running = group or self._group
        if self._given_up:  # Spark would wait for the client's executor until its locality wait ends
            raise ClientLostError(plan.application, self._client.name)
        context = self._session.sparkContext
        context.setLocalProperty(PLAN_PROPERTY, to_json(plan))
        context.setLocalProperty("spark.scheduler.pool", "epochs")
        context.setJobGroup(self._running, f"epoch {plan.epoch}")


def _sql_steps(rows: DataFrame) -> list[tuple[str, DataFrame]]:
    """(step, DataFrame that ends with it) of a query plan's SQL steps, in order."""
    from pyspark.sql import DataFrame as Frame

    session = rows.sparkSession
    dataset: Any = session.sparkContext._jvm.org.apache.spark.sql.classic.Dataset
    steps: list[tuple[str, DataFrame]] = []

    def visit(plan: Any) -> None:
        for child in items(plan.children()):
            visit(child)
        if class_name(plan) == "SubqueryAlias":
            steps.append((plan.identifier().name(), Frame(dataset.ofRows(session._jsparkSession, plan), session)))

    visit(rows._jdf.queryExecution().analyzed())
    return steps


SETTLING_SECONDS = 1.5
"""If the number of executors is unknown: the time without a new one after which all are present."""

REGISTERING_SECONDS = 60.0
"""The age of a Spark application after which missing executors are not waited for."""

FIRST_SECONDS = 300.0
"""How long the first executor may take: a cluster may have to start machines or load images."""


class NoExecutorsError(HeadwaterError):
    """A cluster started no executor in time. `master`: the cluster."""

    def __init__(self, master: str) -> None:
        super().__init__(
            f"{master} has started no executor within {FIRST_SECONDS / 60:.0f} minutes",
            "check the cluster's free resources",
        )
        self.master = master


def clients_of(session: SparkSession, count: int) -> tuple[Client, ...]:
    """The clients of a session: its executors, or in local mode `count` virtual ones that share the cores.

    Waits for the executors of a cluster, which register one by one. Raises NoExecutorsError if none registers.
    """
    if not has_executors(session.sparkContext.master):
        cores = session.sparkContext.defaultParallelism
        names = [f"client-{number}" for number in range(1, count + 1)]
        return tuple(Client(name, max(1, cores // count), folder=name) for name in names)
    return executor_clients(_registered(session))


def has_executors(master: str) -> bool:
    """Whether a master has executors, which keep state on their own machines."""
    return not master.startswith("local") or master.startswith("local-cluster")


def local_state(settings: Settings) -> Path | None:
    """The directory of the stores if clients run on this machine; None if executors keep them on theirs.

    If this process has a session, its master decides, because a run uses that session whatever the profile says.
    Otherwise the profile decides.
    """
    spark: Any = sys.modules.get("pyspark")
    context = None if spark is None else spark.SparkContext._active_spark_context
    master = str(settings.spark.get("master", "local")) if context is None else context.master
    return None if has_executors(master) else Path(settings.state_dir)


def _registered(session: SparkSession) -> dict[str, Executor]:
    """The executors, once all requested ones have registered, or no more register."""
    begun = settled = time.monotonic()
    age = time.time() - session.sparkContext.startTime / 1000
    asked = asked_for(session.sparkContext.master, dict(session.sparkContext.getConf().getAll()))
    present = executors(session)
    while asked is None or len(present) < asked:
        now = time.monotonic()
        if not present and now - begun > FIRST_SECONDS:
            raise NoExecutorsError(session.sparkContext.master)
        overdue = asked is None or age + now - begun > REGISTERING_SECONDS
        if present and overdue and now - settled > SETTLING_SECONDS:
            break
        time.sleep(0.05)
        before, present = present, executors(session)
        if present.keys() != before.keys():
            settled = time.monotonic()
    return present


def asked_for(master: str, settings: Mapping[str, str]) -> int | None:
    """The number of executors that a Spark application requests; None if its settings do not determine it.

    `settings`: Spark's, by full names. Source: Spark's configuration page. A standalone cluster starts as many as fit
    into `spark.cores.max`. With dynamic allocation it is Spark's first number; more may join later.
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
    """The process that runs the workers of virtual clients; None if it is not visible on this machine."""
    jvm: Any = session.sparkContext._jvm
    return Owner.from_pid(jvm.java.lang.ProcessHandle.current().pid())
