"""Events of services outside that a run depends on: Kafka."""

from __future__ import annotations

from dataclasses import dataclass

from .events import Event


@dataclass(frozen=True)
class KafkaPartitionsAdded(Event, terminal="always"):
    """A topic in Kafka has more partitions than before, `partitions` instead of `was`. The application is claimed again
    with them.
    """

    topic: str
    was: int
    partitions: int

    @property
    def subject(self) -> str:
        return self.topic

    @property
    def said(self) -> str:
        return (
            f"it has {self.partitions:,} partitions in Kafka now, and had {self.was:,}: the new ones are read from "
            "their first records on"
        )


@dataclass(frozen=True)
class KafkaOffsetsFailed(Event, level="warning", terminal="always"):
    """The offsets of the application's consumer group for `topic` in Kafka cannot be committed. Only tools need
    them.
    """

    topic: str
    error: str

    @property
    def said(self) -> str:
        return (
            f"the offsets of its consumer group for {self.topic} cannot be committed, so Kafka's tools show an older "
            f"position: {self.error}"
        )


@dataclass(frozen=True)
class ServiceUnavailable(Event, level="warning", terminal="always"):
    """A service outside does not answer: a broker of Kafka. The run waits for it. Nothing is lost."""

    cause: str

    @property
    def said(self) -> str:
        return f"waits: {self.cause}"


@dataclass(frozen=True)
class ServiceAvailable(Event, terminal="always"):
    """A service that did not answer does again."""

    @property
    def said(self) -> str:
        return "goes on: what did not answer does again"
