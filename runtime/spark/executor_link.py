"""The link to the stores of a client on Spark: jobs that are placed on its executor, or run by the driver's workers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import HeadwaterError
from ..dataclass_json import from_json, to_json
from ..placing.client import Client, ClientLostError
from ..restore.client_stores import answer
from ..restore.links import StateJobError, WorkerCrashedError, WorkerKilledError
from ..restore.requests import OPENING_NO_STORE, StateAnswer, StateRequest
from .placed_rows import cancel, placed
from .session.gone_jvm import SparkEndedError
from .worker_errors import crash_of, facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REQUEST_PROPERTY = "headwater.state"
"""The job-local property with the requests. The query plan stays the same for all of them."""

_WATCH_SECONDS = 0.05

_numbers = itertools.count()


class OnExecutor:
    """The link to an executor, or to a virtual client. Each job has at most as many requests as it has threads.

    What opens no store of a virtual client is done here at once. `lost`: whether a client is gone. Threads may use a
    link at once.
    """

    def __init__(self, session: SparkSession, client: Client, application: str, lost: Callable[[Client], bool]) -> None:
        self.threads = client.threads
        self._session = session
        self._client = client
        self._application = application
        self._lost = lost
        self._group = f"{application}/state/{client.name}"
        self._rows: dict[int, DataFrame] = {}

    def ask(self, requests: Sequence[StateRequest]) -> list[StateAnswer]:
        """Run a job for every `threads` requests. Raises ClientLostError, SparkEndedError, StateJobError."""
        if self._client.executor is None and all(request.what in OPENING_NO_STORE for request in requests):
            return [answer(request) for request in requests]
        answers: list[StateAnswer] = []
        for start in range(0, len(requests), self.threads):
            answers.extend(self._job(requests[start : start + self.threads]))
        return answers

    def _job(self, requests: Sequence[StateRequest]) -> list[StateAnswer]:
        # A name of its own for each job: of a name that was cancelled no job runs any more.
        group = f"{self._group} {next(_numbers)}"
        with ThreadPoolExecutor(1, thread_name_prefix=self._group) as pool:
            running = pool.submit(self._collect, group, [to_json(request) for request in requests])
            while not wait([running], _WATCH_SECONDS).done:
                if self._lost(self._client):  # the job would wait for the executor for an hour
                    cancel(self._session, group)
                    raise ClientLostError(self._application, self._client.name)
            try:
                texts = running.result()
            except Exception as error:  # whatever Spark makes of it
                if self._lost(self._client):
                    raise ClientLostError(self._application, self._client.name) from error
                raise self._failed(error) from error
        return [from_json(StateAnswer, text) for text in texts]

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
        if len(texts) not in self._rows:  # a Spark task without a request would take a slot, and a worker
            rows = placed(self._session, len(texts), self._client.executor)
            self._rows[len(texts)] = rows.mapInArrow(answers_of, "number int, answer string")
        context.setLocalProperty(REQUEST_PROPERTY, json.dumps(texts))
        context.setLocalProperty("spark.scheduler.pool", "restore")
        context.setJobGroup(group, "stores")
        answers = {row[0]: str(row[1]) for row in self._rows[len(texts)].collect()}
        return [answers[number] for number in range(len(texts))]


def answers_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a Spark task: the answer to the request with this thread's number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    texts = json.loads((context and context.getLocalProperty(REQUEST_PROPERTY)) or "[]")
    for batch in batches:
        numbers = batch.column(0).to_pylist()
        answers = [to_json(answer(from_json(StateRequest, texts[number]))) for number in numbers]
        yield pa.record_batch([pa.array(numbers, pa.int32()), pa.array(answers, pa.string())], ["number", "answer"])
