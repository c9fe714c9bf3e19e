"""What `headwater debug kafka` finds in clusters: plain data, for which no client of Kafka is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """What is wrong, with a way out. `stops`: whether it stops a run."""

    what: str
    way_out: str
    stops: bool = True


@dataclass(frozen=True)
class Right:
    """Whether the user may do something. `resource`: its kind and name, such as `group shop-kafka`."""

    resource: str
    operation: str
    allowed: bool


@dataclass(frozen=True)
class Sample:
    """A record in Kafka. `timestamp`: ms. `key`, `value`: columns as JSON values, None for null and tombstones.

    `error`: why it cannot be decoded, None if it can. `raw`: key and value as texts, if there is an error.
    """

    partition: int
    offset: int
    timestamp: int
    key: Mapping[str, Any] | None = None
    value: Mapping[str, Any] | None = None
    error: str | None = None
    raw: tuple[str | None, str | None] | None = None


@dataclass(frozen=True)
class TopicReport:
    """A topic. `name`: in the project. `topic`: in Kafka. `written`: by the project, else it is read.

    `id`, `partitions`, `offsets`: None if they are not known. `offsets`: how many offsets have records at most.
    """

    name: str
    topic: str
    written: bool
    id: str | None = None
    partitions: int | None = None
    offsets: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    rights: tuple[Right, ...] = ()
    samples: tuple[Sample, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class ClusterReport:
    """A cluster. `id`, `brokers`: None if it cannot be reached."""

    name: str
    servers: str
    id: str | None = None
    brokers: int | None = None
    topics: tuple[TopicReport, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def all_findings(self) -> tuple[tuple[str, Finding], ...]:
        """All findings, each with what it is about: the cluster, or a topic of the project."""
        return (
            *((self.name, finding) for finding in self.findings),
            *((topic.name, finding) for topic in self.topics for finding in topic.findings),
        )
