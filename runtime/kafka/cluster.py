"""Clients of a Kafka cluster: their settings, and what they tell of their connections."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ..ir.topology import KafkaCluster
from .errors import KafkaClusterError, KafkaSettingError, error_of, refusal_of

Answer = TypeVar("Answer")
Client = TypeVar("Client")

PATIENCE = 20.0
"""The seconds for which a request is repeated while no broker answers, so that short outages end no run."""

_REFUSED_SECONDS = 2.0
"""The seconds after a refused login in which it may still succeed: with another broker, or after a broker's start."""

_LOOK_SECONDS = 0.1

OWN_SETTINGS = frozenset(
    {
        "bootstrap.servers",
        "group.id",
        "transactional.id",
        "isolation.level",
        "enable.idempotence",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "enable.partition.eof",
        "acks",
        "request.required.acks",
        "delivery.report.only.error",
    }
)
"""Settings of librdkafka that exactly-once depends on, or that have a place of their own in the profile."""

_DEFAULTS: Mapping[str, Any] = {
    "client.id": "headwater",
    # Nothing on standard error: what it would say of connections comes as errors.
    "log_level": 0,
}


class Connections:
    """What a client tells of its connections. Only its `error_cb` does: a refused login is otherwise a timeout."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self._error: KafkaError | None = None
        self._refused: float | None = None

    def client(
        self, make: type[Client], settings: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
    ) -> Client:
        """A client of librdkafka. `settings`: those that no profile changes. `defaults`: those that it may change.

        Raises KafkaSettingError.
        """
        servers, given = self.cluster.bootstrap_servers, self.cluster.client
        if own := sorted(OWN_SETTINGS.intersection(given)):
            raise KafkaSettingError(servers, f"{', '.join(own)} cannot be set")
        merged = {**_DEFAULTS, **(defaults or {}), **given, **settings}
        try:
            return make({**merged, "bootstrap.servers": servers, "error_cb": self.hear})  # type: ignore[call-arg]
        except (KafkaException, ValueError, TypeError) as error:
            cause = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise KafkaSettingError(servers, cause) from None  # the exception may quote settings

    def hear(self, error: KafkaError) -> None:
        """Keep an error. One with a cause is not replaced by one that all brokers are down."""
        if self._refused is None and refusal_of(self.cluster.bootstrap_servers, error) is not None:
            self._refused = time.monotonic()
            self._error = error
        elif self._refused is None and (self._error is None or error.code() != KafkaError._ALL_BROKERS_DOWN):
            self._error = error

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
    """Requests of an admin client: their answers, or the error that the client tells of its connections."""

    def __init__(self, connections: Connections, poll: Any) -> None:
        self._connections = connections
        self._poll = poll

    def answers(
        self, request: str, futures: Iterable[Future[Answer]], topics: Iterable[str | None] = ()
    ) -> list[Answer]:
        """The answers, in order. `topics`: that the requests are about. Raises KafkaClusterError."""
        asked = list(futures)
        about = list(topics) or [None] * len(asked)
        while wait(asked, timeout=_LOOK_SECONDS).not_done:
            self._poll(0)
            self._connections.check()
        self._poll(0)
        answers = []
        for future, topic in zip(asked, about, strict=True):
            try:
                answers.append(future.result())
            except KafkaException as error:
                raise self._connections.error(request, error.args[0], topic) from None
        self._connections.answered()
        return answers
