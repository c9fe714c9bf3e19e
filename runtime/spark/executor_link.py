"""The link to the stores of a client on an executor: a Spark job that is placed there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import pyarrow as pa

from ..dataclass_json import from_json, to_json
from ..placing.client import Client, ClientLostError
from ..restore.client_stores import answer
from ..restore.links import StateJobError
from ..restore.requests import StateAnswer, StateRequest
from .placed_rows import placed
from .worker_errors import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REQUEST_PROPERTY = "headwater.state"
"""The job-local property with the requests. The query plan stays the same for all of them."""

_WATCH_SECONDS = 0.05


class OnExecutor:
    """The link to an executor. Each job sends it at most as many requests as it has threads.

    `lost`: whether a client is gone. A link is used by one thread at a time.
    """

    in_driver = False

    def __init__(self, session: SparkSession, client: Client, application: str, lost: Callable[[Client], bool]) -> None:
        self.threads = client.threads
        self._session = session
        self._client = client
        self._application = application
        self._lost = lost
        self._group = f"{application}/state/{client.name}"
        self._rows: DataFrame | None = None

    def ask(self, requests: Sequence[StateRequest]) -> list[StateAnswer]:
        """Run a job for every `threads` requests."""
        answers: list[StateAnswer] = []
        for start in range(0, len(requests), self.threads):
            answers.extend(self._job(requests[start : start + self.threads]))
        return answers

    def _job(self, requests: Sequence[StateRequest]) -> list[StateAnswer]:
        with ThreadPoolExecutor(1, thread_name_prefix=self._group) as pool:
            running = pool.submit(self._collect, [to_json(request) for request in requests])
            while not wait([running], _WATCH_SECONDS).done:
                if self._lost(self._client):  # the job would wait for the executor for an hour
                    self._session.sparkContext.cancelJobGroup(self._group)
                    raise ClientLostError(self._application, self._client.name)
            try:
                texts = running.result()
            except Exception as error:  # whatever Spark makes of it
                if self._lost(self._client):
                    raise ClientLostError(self._application, self._client.name) from error
                raise StateJobError(self._application, self._client.name, facts_of(error).cause) from error
        return [from_json(StateAnswer, text) for text in texts]

    def _collect(self, texts: Sequence[str]) -> list[str]:
        """Run one job. Job properties belong to the calling thread, so they are set here."""
        context = self._session.sparkContext
        if self._rows is None:
            rows = placed(self._session, self.threads, self._client.executor)
            self._rows = rows.mapInArrow(answers_of, "number int, answer string")
        context.setLocalProperty(REQUEST_PROPERTY, json.dumps(texts))
        context.setLocalProperty("spark.scheduler.pool", "restore")
        context.setJobGroup(self._group, "stores")
        answers = {row[0]: str(row[1]) for row in self._rows.collect()}
        return [answers[number] for number in range(len(texts))]


def answers_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a Spark task: the answer to the request with this thread's number, if there is one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    texts = json.loads((context and context.getLocalProperty(REQUEST_PROPERTY)) or "[]")
    for batch in batches:
        numbers = [number for number in batch.column(0).to_pylist() if number < len(texts)]
        answers = [to_json(answer(from_json(StateRequest, texts[number]))) for number in numbers]
        yield pa.record_batch([pa.array(numbers, pa.int32()), pa.array(answers, pa.string())], ["number", "answer"])
