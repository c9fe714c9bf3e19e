"""Clients of a Kafka cluster: their settings, and what they tell of their connections."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import cache, wraps
from typing import Any, TypeVar, TypeVarTuple

from confluent_kafka import KafkaError, KafkaException

from ..ir.topology import KafkaCluster
from ..pinned_settings import PINNED_OF_KAFKA
from .errors import PASSING, KafkaClusterError, KafkaSettingError, error_of, refusal_of

Answer = TypeVar("Answer")
Client = TypeVar("Client")
Rest = TypeVarTuple("Rest")

PATIENCE = 20.0
"""The seconds for which a request is repeated while no broker answers, so that short outages end no run."""

_REFUSED_SECONDS = 2.0
"""The seconds after a refused login in which it may still succeed: with another broker, or after a broker's start."""

_LOOK_SECONDS, _PAUSE_SECONDS = 0.1, 0.02

_DEFAULTS: Mapping[str, Any] = {
    "client.id": "headwater",
    # Nothing on standard error: what it would say of connections comes as errors. It says fatal errors at any level.
    "log_level": 0,
    "logger": logging.Logger("librdkafka", logging.CRITICAL + 1),
}


def once_a_process(make: Callable[[KafkaCluster, *Rest], Answer]) -> Callable[[KafkaCluster, *Rest], Answer]:
    """A function whose results stay open: one for each process, cluster and other arguments, which are hashable.

    A forked process makes its own, as clients do not survive a fork. None is dropped: to destroy a client that another
    process has opened would hang.
    """

    @cache
    def made(_: int, servers: str, client: tuple[tuple[str, Any], ...], prefix: str, rest: tuple[*Rest]) -> Answer:
        return make(KafkaCluster(servers, dict(client), prefix), *rest)

    @wraps(make)
    def opened(cluster: KafkaCluster, /, *rest: *Rest) -> Answer:
        client = tuple(sorted(cluster.client.items()))
        return made(os.getpid(), cluster.bootstrap_servers, client, cluster.prefix, rest)

    return opened


class Connections:
    """What a client tells of its connections. Only its `error_cb` does: a refused login is otherwise a timeout.

    `heard`: the number of errors so far.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self._error: KafkaError | None = None
        self._refused: float | None = None
        self.heard = 0

    def client(
        self, make: type[Client], settings: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
    ) -> Client:
        """A client of librdkafka. `settings`: those that no profile changes. `defaults`: those that it may change.

        Raises KafkaSettingError.
        """
        servers, given = self.cluster.bootstrap_servers, self.cluster.client
        if own := sorted(PINNED_OF_KAFKA.intersection(given)):
            raise KafkaSettingError(servers, f"{', '.join(own)} cannot be set")
        merged = {**_DEFAULTS, **(defaults or {}), **given, **settings}
        try:
            return make({**merged, "bootstrap.servers": servers, "error_cb": self.hear})  # type: ignore[call-arg]
        except (KafkaException, ValueError, TypeError) as error:
            cause = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise KafkaSettingError(servers, cause) from None  # the exception may quote settings

    def hear(self, error: KafkaError) -> None:
        """Keep an error. One with a cause is not replaced by one that all brokers are down."""
        self.heard += 1
        if self._refused is None and refusal_of(self.cluster.bootstrap_servers, error) is not None:
            self._refused = time.monotonic()
            self._error = error
        elif self._refused is None and (self._error is None or error.code() != KafkaError._ALL_BROKERS_DOWN):
            self._error = error

    @property
    def failed(self) -> bool:
        """Whether there was an error since the last answer."""
        return self._error is not None

    def answered(self) -> None:
        """Forget errors: a broker has answered."""
        self._error = self._refused = None

    def check(self) -> None:
        """Raise KafkaLoginError or KafkaTlsError if the brokers refuse this client, and not just for a moment."""
        if self._refused is not None and time.monotonic() - self._refused >= _REFUSED_SECONDS:
            assert self._error is not None
            refusal = refusal_of(self.cluster.bootstrap_servers, self._error)
            self.answered()  # the next request has its own time
            assert refusal is not None
            raise refusal

    def error(self, request: str, error: KafkaError, topic: str | None = None) -> KafkaClusterError:
        """The error for one of librdkafka. `request`: what was asked. `topic`: that it was about."""
        return error_of(self.cluster.bootstrap_servers, request, error, topic, self._error)


class Asking:
    """Requests of an admin client: their answers, or the error that the client tells of its connections.

    `poll`: of the client. `patience`: seconds in which requests are repeated that brokers cannot answer yet.
    """

    def __init__(self, connections: Connections, poll: Callable[[float], object], patience: float) -> None:
        self._connections = connections
        self._poll = poll
        self._patience = patience

    def answers(
        self,
        request: str,
        ask: Callable[[], Iterable[Future[Answer]]],
        topics: Iterable[str | None],
        error_in: Callable[[Answer], KafkaError | None] = lambda _: None,
    ) -> list[Answer]:
        """The answers, in order. `ask`: sends the requests. `topics`: of each request. Raises KafkaClusterError.

        `error_in`: the error that an answer contains, if any.
        """
        until = time.monotonic() + self._patience
        about = list(topics)
        while True:
            answers, errors = self._wait(list(ask()), error_in)
            failures = [(error, topic) for error, topic in zip(errors, about, strict=True) if error is not None]
            if not failures:
                self._connections.answered()
                return answers
            lasting = [failure for failure in failures if failure[0].code() not in PASSING]
            if lasting or time.monotonic() >= until:
                error, topic = (lasting or failures)[0]
                raise self._connections.error(request, error, topic)
            time.sleep(_PAUSE_SECONDS)

    def _wait(
        self, futures: Sequence[Future[Answer]], error_in: Callable[[Answer], KafkaError | None]
    ) -> tuple[list[Answer], list[KafkaError | None]]:
        while wait(futures, timeout=_LOOK_SECONDS).not_done:
            self._poll(0)
            self._connections.check()
        self._poll(0)
        answers: list[Answer] = []
        errors: list[KafkaError | None] = []
        for future in futures:
            try:
                answers.append(future.result())
                errors.append(error_in(answers[-1]))
            except KafkaException as error:
                errors.append(error.args[0])
        return answers, errors
