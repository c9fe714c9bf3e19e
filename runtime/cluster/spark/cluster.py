"""The cluster of a run, and the link to its executors."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ....errors import HeadwaterError
from ...dataclass_json import from_json, to_json
from ...driver.cluster import EpochJob
from ...ir.topology import DEADLINE_MS, Settings, Subtopology
from ...placing.place import Client, ClientLostError
from ...restore.client_stores import handle
from ...restore.links import StateJobError, StateLink, WorkerCrashedError, WorkerKilledError
from ...restore.requests import WITHOUT_OPENING, StateRequest, StateResponse
from ...state.process_file import Owner
from .engine import cancel, placed
from .job import SparkJob, clients_of, driver_jvm, has_executors, local_state
from .jvm import SparkEndedError
from .watching import ExecutorWatch, KnownExecutors
from .worker_errors import crash_of, facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


REQUEST_PROPERTY = "headwater.state"
"""The job-local property with the requests. The query plan is the same for all of them."""

_WATCH_SECONDS = 0.05

_numbers = itertools.count()


class OnExecutor:
    """The link to the stores of a client: jobs on its executor, or in workers of the driver for a virtual client.

    A job has at most as many requests as the client has threads. Requests to a virtual client that open no store are
    handled here. `lost`: whether a client is lost. Thread-safe.
    """

    def __init__(self, session: SparkSession, client: Client, application: str, lost: Callable[[Client], bool]) -> None:
        self.threads = client.threads
        self._session = session
        self._client = client
        self._application = application
        self._lost = lost
        self._group = f"{application}/state/{client.name}"
        self._rows: dict[int, DataFrame] = {}

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        """Run a job for every `threads` requests. Raises ClientLostError, SparkEndedError, StateJobError."""
        if self._client.executor is None and all(request.what in WITHOUT_OPENING for request in requests):
            return [handle(request) for request in requests]
        answers: list[StateResponse] = []
        for start in range(0, len(requests), self.threads):
            answers.extend(self._job(requests[start : start + self.threads]))
        return answers

    def _job(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        # Every job has a name of its own: after a cancellation no job of that name starts any more.
        group = f"{self._group} {next(_numbers)}"
        with ThreadPoolExecutor(1, thread_name_prefix=self._group) as pool:
            running = pool.submit(self._collect, group, [to_json(request) for request in requests])
            while not wait([running], _WATCH_SECONDS).done:
                if self._lost(self._client):  # the job would wait for the executor for an hour
                    cancel(self._session, group)
                    raise ClientLostError(self._application, self._client.name)
            try:
                texts = running.result()
            except Exception as error:  # Spark raises several classes
                if self._lost(self._client):
                    raise ClientLostError(self._application, self._client.name) from error
                raise self._failed(error) from error
        return [from_json(StateResponse, text) for text in texts]

    def _failed(self, error: Exception) -> HeadwaterError:
        if (ended := SparkEndedError.of(error)) is not None:
            return ended
        at, cause = (self._application, self._client.name), facts_of(error).cause
        match crash_of(error):
            case None:
                return StateJobError(*at, cause)
            case "":
                return WorkerKilledError(*at, cause)
            case crash:
                return WorkerCrashedError(*at, cause, crash)

    def _collect(self, group: str, texts: Sequence[str]) -> list[str]:
        """Run one job. Job properties belong to the calling thread, so they are set here."""
        context = self._session.sparkContext
        if len(texts) not in self._rows:  # a Spark task without a request would need a slot and a worker
            rows = placed(self._session, len(texts), self._client.executor)
            self._rows[len(texts)] = rows.mapInArrow(answers_of, "number int, answer string")
        context.setLocalProperty(REQUEST_PROPERTY, json.dumps(texts))
        context.setLocalProperty("spark.scheduler.pool", "restore")
        context.setJobGroup(group, "stores")
        answers = {row[0]: str(row[1]) for row in self._rows[len(texts)].collect()}
        return [answers[number] for number in range(len(texts))]


def answers_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a Spark task: the response to the request with this thread's number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    texts = json.loads((context and context.getLocalProperty(REQUEST_PROPERTY)) or "[]")
    for batch in batches:
        numbers = batch.column(0).to_pylist()
        answers = [to_json(handle(from_json(StateRequest, texts[number]))) for number in numbers]
        yield pa.record_batch([pa.array(numbers, pa.int32()), pa.array(answers, pa.string())], ["number", "answer"])


class SparkCluster:
    """A cluster (`driver.cluster.Cluster`) of the executors of a session, or of virtual clients in local mode. The
    session stays open.

    `deadline_ms`: how long an executor may be silent, see `watching`. `in_tasks`: tasks compute proven expressions
    themselves. Raises DeadlineError.
    """

    def __init__(self, session: SparkSession, deadline_ms: int = DEADLINE_MS, in_tasks: bool = False) -> None:
        self._in_tasks = in_tasks
        self._session = session
        has = has_executors(session.sparkContext.master)
        self._watch = ExecutorWatch(KnownExecutors(session), deadline_ms / 1000) if has else None
        self._virtual: tuple[Client, ...] = ()

    def clients(self, count: int) -> tuple[Client, ...]:
        """Wait for the executors of a cluster. Raises NoExecutorsError if none comes."""
        return clients_of(self._session, count)

    def present(self, count: int) -> tuple[Client, ...]:
        """The present executors. Virtual clients are always present, and join again if the group has lost one."""
        if self._watch is not None:
            return self._watch.present()
        if len(self._virtual) != count:
            self._virtual = clients_of(self._session, count)
        return self._virtual

    def lost(self, client: Client) -> bool:
        return self._watch is not None and self._watch.lost(client)

    def silent(self, client: Client) -> float | None:
        return None if self._watch is None else self._watch.silent(client)

    def owner(self) -> Owner | None:
        """The JVM, which runs the workers of virtual clients; or this process, if the machine cannot see the JVM."""
        return driver_jvm(self._session) or Owner.from_pid(os.getpid())

    def state_dir(self, settings: Settings) -> Path | None:
        return local_state(settings)

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        return SparkJob(self._session, part, client, application, self._in_tasks)

    def link(self, client: Client, application: str) -> StateLink:
        """The link by Spark jobs: a damaged store may end the process that opens it, which must not be the driver."""
        return OnExecutor(self._session, client, application, self.lost)

    def ended(self, error: Exception) -> SparkEndedError | None:
        return SparkEndedError.of(error)
