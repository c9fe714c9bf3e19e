"""Asks clusters of Kafka for offsets again and again, beside whoever needs the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import TypeVar

from ...errors import UnavailableError
from .sources import KafkaOffsets, TopicOffsets

Answer = TypeVar("Answer")

LEAST_SECONDS, MOST_SECONDS = 0.02, 0.5
"""The least and the most time between two questions."""

_SHARE = 10
"""The time between two questions, as a part of the time since offsets have changed: what comes after a pause is known
later by a tenth of the pause, and a cluster to which nothing is written is hardly asked.
"""

RETRY_SECONDS = 1.0
"""The time between two questions while a cluster does not answer."""


def beside(ask: Callable[[], Answer], name: str) -> Future[Answer]:
    """Call a function in a thread of its own. Unlike those of a pool, the end of the process does not wait for it."""
    future: Future[Answer] = Future()

    def call() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # of any kind: it is raised where the result is taken
            future.set_exception(error)

    threading.Thread(target=call, name=name, daemon=True).start()
    return future


class ClusterPoll:
    """The offsets of topics of one cluster, as of its last answer. One question is open at a time, for all topics.

    `topics`: their names in Kafka. `seconds`: a monotonic clock. `offsets`: empty before the first answer. `silent`:
    whether the cluster has not answered the last question. Used from one thread.
    """

    def __init__(self, cluster: KafkaOffsets, topics: Collection[str], seconds: Callable[[], float]) -> None:
        self._cluster = cluster
        self._topics = sorted(topics)
        self._seconds = seconds
        self._question: Future[Mapping[str, TopicOffsets]] | None = None
        self._asked_at = self._due = float("-inf")
        self._changed_at = seconds()
        self.offsets: Mapping[str, TopicOffsets] = {}
        self.as_of = float("-inf")
        """When the question of the last answer was asked."""
        self.silent = False

    @property
    def question(self) -> Future[Mapping[str, TopicOffsets]] | None:
        """The open question."""
        return self._question

    def advance(self) -> bool:
        """Take the answer if there is one, and ask again if it is due. Whether there was one. Never waits.

        Raises the errors of `KafkaOffsets`. `offsets` are those of the answer before then.
        """
        if self._question is None:
            if self._seconds() >= self._due:
                self._asked_at = self._seconds()
                self._question = beside(lambda: self._cluster.offsets(self._topics), "kafka-offsets")
            return False
        if not self._question.done():
            return False
        question, self._question = self._question, None
        now = self._seconds()
        try:
            offsets = question.result()
        except UnavailableError:
            self._due, self.silent = now + RETRY_SECONDS, True
            raise
        if offsets != self.offsets:
            self._changed_at = now
        pause = min(MOST_SECONDS, max(LEAST_SECONDS, (now - self._changed_at) / _SHARE))
        self.offsets, self.as_of, self._due, self.silent = offsets, self._asked_at, self._asked_at + pause, False
        return True

    def soon(self) -> None:
        """Ask again as soon as no question is open, unless the cluster does not answer."""
        if not self.silent:
            self._due = float("-inf")
