"""Offsets of a consumer group, which an application commits for Kafka's tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError, UnavailableError
from headwater.runtime.driver.events import Event
from headwater.runtime.driver.group_offsets import INTERVAL_SECONDS, GroupOffsets
from headwater.runtime.driver.service_events import KafkaOffsetsFailed
from headwater.runtime.ir.topology import raw_topic
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.tests.runtime.driver.commits import Applications, part, topic, topology
from headwater.tests.runtime.local.memory_kafka import MemoryKafka
from headwater.tests.waiting import wait_until

GROUP = "p-kafka"


class Kafka(MemoryKafka):
    """`refused`: topic -> the error of commits of its offsets. `tried`: how often offsets were to be committed."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, HeadwaterError] = {}
        self.tried = 0

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self.tried += 1
        if topic in self.refused:
            raise self.refused[topic]
        super().commit(group, topic, offsets)


@dataclass
class Committing:
    """An application that copies the topics `a` and `b`."""

    path: Path
    kafka: Kafka = field(default_factory=Kafka)
    events: list[Event] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        raw = {name: replace(raw_topic(name), partitions=1) for name in "ab"}
        parts = [part(name, (raw[name],), (topic(f"copy_{name}", 1, GROUP),), number=ord(name) - 97) for name in "ab"]
        self.applications = Applications(EmbeddedLog(self.path))
        self.committed = self.applications.start(topology("kafka", *parts))
        self.offsets = GroupOffsets(topology("kafka", *parts), self.committed, {"main": self.kafka}, self, self.seconds)

    def seconds(self) -> float:
        return self.now

    def on(self, event: Event) -> None:
        self.events.append(event)

    def copy(self, topic: str, position: int) -> None:
        self.applications.commit("kafka", topic, positions={f"kafka:main:{topic}": {0: position}})

    def advance(self) -> None:
        """The next commit of offsets, to its end."""
        self.committed.own.refresh()
        self.now += INTERVAL_SECONDS
        self.offsets.advance()
        working = self.offsets._working
        assert working is not None
        wait_until(working.done)

    def end(self) -> None:
        self.committed.own.refresh()
        with self.offsets:
            pass


@pytest.fixture
def committing(tmp_path: Path) -> Committing:
    return Committing(tmp_path)


def test_topic_whose_offsets_are_refused_is_reported_once(committing: Committing) -> None:
    committing.kafka.refused["a"] = HeadwaterError("somebody is a member")
    for position in range(1, 4):
        committing.copy("a", position)
        committing.copy("b", position)
        committing.advance()
    assert [event.topic for event in committing.events if isinstance(event, KafkaOffsetsFailed)] == ["a"]
    assert committing.kafka.groups == {(GROUP, "b"): {0: 3}}


def test_refused_offsets_are_committed_later(committing: Committing) -> None:
    committing.kafka.refused["a"] = HeadwaterError("somebody is a member")
    committing.copy("a", 1)
    committing.advance()
    committing.kafka.refused.clear()
    committing.advance()
    assert committing.kafka.groups == {(GROUP, "a"): {0: 1}}
    tried = committing.kafka.tried
    committing.advance()
    assert committing.kafka.tried == tried


def test_end_waits_only_once_for_a_cluster_that_does_not_answer(committing: Committing) -> None:
    for name in "ab":
        committing.kafka.refused[name] = UnavailableError("Kafka does not answer")
        committing.copy(name, 1)
    committing.end()
    assert committing.kafka.tried == 1
