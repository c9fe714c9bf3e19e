"""Topics of a project in Kafka, asked for there: a run is not needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..compiler.checks.plugins import PluginCatalog
from ..compiler.entries import TopicModel, dead_letter_name
from ..compiler.model.project import FROM_KAFKA, TO_KAFKA
from ..compiler.target_settings import with_pems
from ..compiler.topology.kafka import kafka_topic
from ..errors import HeadwaterError
from ..runtime.ingest.retry import Copy, NoLettersError, RetryResult, retry_copied
from ..runtime.ir.topology import KafkaCluster, PluginRef, SchemaRegistry, Topic
from ..runtime.kafka.report import ClusterReport
from ..runtime.kafka.worker import client_of_kafka
from ..runtime.log.commit.external_records import EXTERNAL_LANE
from ..runtime.log.state import LogState
from ..runtime.progress.resets import locked
from ..runtime.query.topics import TopicReader
from ..runtime.records.schema import key_columns, value_columns
from ..runtime.serdes.serde import Decoded, Direction, PayloadSpec, Role, Serde, ask_for_schema
from ..runtime.serdes.windows import serde_of
from ..runtime.task_id import TaskKey
from .target import Part

if TYPE_CHECKING:
    from ..runtime.kafka.inspection import Copied, Decode, InspectedTopic


class NoKafkaError(HeadwaterError):
    """The target has no cluster of Kafka. `target`: its name."""

    exit_code = 2

    def __init__(self, target: str) -> None:
        super().__init__(
            f"the target {target} has no cluster of Kafka",
            "write `kafka:` below it in profiles.yml, or choose another one with --target",
        )


class KafkaTopics(Part):
    """The selected topics of the project that are in Kafka, and the clusters of the target."""

    def clusters(self) -> dict[str, KafkaCluster]:
        """The clusters of the target, by name. Raises NoKafkaError, InvalidProjectError, PemFileError."""
        settings = with_pems(self._target.settings_to_read(), self._files.root)
        if not settings.kafka:
            raise NoKafkaError(self._files.checked.loaded.target_name)
        return dict(settings.kafka)

    def inspect(self, records: int) -> tuple[ClusterReport, ...]:
        """See `Project.inspect_kafka`."""
        self._files.require_valid()
        clusters = self.clusters()
        with client_of_kafka():
            from ..runtime.kafka.inspection import KafkaInspection
        wanted = [*self._topics(clusters)]
        return tuple(
            KafkaInspection(name, cluster).report([topic for place, topic in wanted if place == name], records)
            for name, cluster in clusters.items()
        )

    def copy_of_letters(self, letters: str) -> TopicModel | None:
        """The topic whose copy from Kafka writes these dead letters; None for other topics."""
        self._files.require_valid()
        read = self._files.checked.model.read_from_kafka
        return next((topic for topic in read if dead_letter_name(FROM_KAFKA, topic.name.text) == letters), None)

    def retry(self, letters: str, copied: TopicModel, records: Sequence[Mapping[str, Any]] | None) -> RetryResult:
        """See `Project.retry`. `copied`: of `copy_of_letters`."""
        checked, log = self._files.checked, self._target.log()
        held, declared = checked.topics.get(letters), checked.topics[copied.name.text]
        if held is None:
            raise NoLettersError(letters)
        application = checked.model.application(FROM_KAFKA)
        dead_letters = list(TopicReader(log, application, held).read())
        if not dead_letters:
            return RetryResult(None, 0, 0, 0)
        there = kafka_topic(checked.model, copied)
        payloads = self._payloads(copied, declared, there.name, self.clusters()[there.cluster].registry)
        decode = _decoding(payloads, written=False)
        assert decode is not None
        with locked(self._target.state_dir(), [application]):
            return retry_copied(log, held, dead_letters, Copy(declared, decode), records)

    def _topics(self, clusters: Mapping[str, KafkaCluster]) -> Iterator[tuple[str, InspectedTopic]]:
        """The selected topics, with the names of their clusters."""
        from ..runtime.kafka.inspection import InspectedTopic

        model = self._files.checked.model
        sides = ((model.read_from_kafka, FROM_KAFKA, False), (model.written_to_kafka, TO_KAFKA, True))
        for topics, application, written in sides:
            for topic in topics:
                name = topic.name.text
                if f"topic.{name}" not in self._selection.ids and f"topology.{application}" not in self._selection.ids:
                    continue
                declared, there = self._files.checked.topics[name], kafka_topic(model, topic)
                payloads = self._payloads(topic, declared, there.name, clusters[there.cluster].registry)
                tasks = [f"{name}_{partition}" for partition in range(declared.partitions)] if written else []
                yield (
                    there.cluster,
                    InspectedTopic(
                        name,
                        there.name,
                        written,
                        model.application(application),
                        _decoding(payloads, written),
                        tasks,
                        keyed=bool(topic.key),
                        oldest=self._oldest(declared) if written else None,
                        stops_at_bad=declared.on_error == "fail",
                        copied=None if written else self._copied(model.application(application), name),
                        begins_at=None if topic.kafka is None or topic.kafka.group is None else topic.kafka.group.text,
                        check_schemas=_writing(payloads) if written else lambda: None,
                    ),
                )

    def _payloads(
        self, topic: TopicModel, declared: Topic, there: str, registry: SchemaRegistry | None
    ) -> Mapping[Role, _Payload]:
        """Formats and columns of keys and values."""
        assert topic.kafka is not None
        catalog = PluginCatalog(self._files.plugins)
        forms = {Role.KEY: topic.kafka.key_format, Role.VALUE: topic.kafka.value_format}
        columns = {Role.KEY: key_columns(declared), Role.VALUE: value_columns(declared)}
        return {
            role: _Payload(form, serde_of(form, catalog.serde), PayloadSpec(there, role, columns[role], registry))
            for role, form in forms.items()
        }

    def _copied(self, application: str, topic: str) -> Copied | None:
        """How far a topic of Kafka is copied; None without commits, and if these cannot be read now."""
        from ..runtime.kafka.inspection import Copied

        try:
            state = LogState.load(self._target.log_to_read().commits(application))
        except HeadwaterError:
            return None
        raw = state.topology.raw_source(topic)
        if raw is None:
            return None
        used = state.topology.topics[raw]
        tasks = ((number, TaskKey(application, topic, number)) for number in range(used.partitions))
        committed = ((number, state.tasks.last_commit(task).positions.get(raw, {})) for number, task in tasks)
        positions = {number: lanes[EXTERNAL_LANE] for number, lanes in committed if EXTERNAL_LANE in lanes}
        return Copied(used.kafka_id or "", used.partitions, positions)

    def _oldest(self, topic: Topic) -> int | None:
        """The time of the first record of a topic of the log; None if it has none, or cannot be read now."""
        try:
            log = self._target.log_to_read()
            first = next(iter(TopicReader(log, topic.writer or self._files.seeds, topic).read(1)), None)
        except HeadwaterError:
            return None
        return None if first is None else first.timestamp


@dataclass(frozen=True)
class _Payload:
    """The keys or the values of a topic, as they are declared."""

    form: PluginRef
    serde: Serde
    spec: PayloadSpec


def _decoding(payloads: Mapping[Role, _Payload], written: bool) -> Decode | None:
    """What decodes the records of a topic; None if it is written in formats that cannot be read."""
    if written and any(payload.serde.check(payload.spec, Direction.READ) for payload in payloads.values()):
        return None
    made = {role: payload.serde.deserializer(payload.spec) for role, payload in payloads.items()}

    def decode(role: Role, found: pa.BinaryArray) -> Decoded:
        return made[role].read(found)

    return decode


def _writing(payloads: Mapping[Role, _Payload]) -> Callable[[], None]:
    """What asks the registry whether its schemas hold the columns. Formats that register schemas themselves are not
    asked: that would register them.
    """

    def check() -> None:
        for payload in payloads.values():
            if not payload.form.options.get("register"):
                ask_for_schema(payload.serde, payload.spec)

    return check
