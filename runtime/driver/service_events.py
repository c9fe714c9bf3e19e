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
class KafkaTransactionOpen(Event, level="warning", terminal="always"):
    """A transaction of another application holds `records` offsets of a partition from `offset` on, for `seconds`."""

    topic: str
    partition: int
    offset: int
    records: int
    seconds: float

    @property
    def subject(self) -> str:
        return self.topic

    @property
    def said(self) -> str:
        return (
            f"partition {self.partition}: an open transaction of another application holds {self.records:,} offsets "
            f"from {self.offset:,} on, for {self.seconds:.0f} s: they are read once it ends; "
            "`kafka-transactions describe-producers` shows its producer"
        )


@dataclass(frozen=True)
class KafkaTransactionEnded(Event, terminal="always"):
    """The transaction of `KafkaTransactionOpen` has ended, after `seconds`."""

    topic: str
    partition: int
    seconds: float

    @property
    def subject(self) -> str:
        return self.topic

    @property
    def said(self) -> str:
        return f"partition {self.partition}: the open transaction has ended after {self.seconds:.0f} s"


@dataclass(frozen=True)
class KafkaRetentionNear(Event, level="warning", terminal="always"):
    """Kafka has removed `removed` offsets of a partition, up to `low`. As many again would reach `position`, from which
    on `unread` are not read.
    """

    topic: str
    partition: int
    low: int
    position: int
    unread: int
    removed: int

    @property
    def subject(self) -> str:
        return self.topic

    @property
    def said(self) -> str:
        return (
            f"partition {self.partition}: retention has removed {self.removed:,} offsets, up to {self.low:,}, and is "
            f"near those that are not read ({self.unread:,} from {self.position:,} on): raise `retention.ms` or "
            "`retention.bytes` of the topic, or run more threads"
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
