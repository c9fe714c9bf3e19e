"""The declaration of a topic that exists in Kafka, as YAML, from some of its records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..compiler.checks.plugins import PluginCatalog
from ..compiler.outcomes import UnknownNameError
from ..errors import HeadwaterError
from ..private_files import write_text
from ..runtime.ir.topology import KafkaCluster
from ..runtime.kafka.worker import client_of_kafka
from ..runtime.records.types import ddl
from ..runtime.serdes.inference import Column, Inferred, Payload, inferred
from ..runtime.serdes.registered import registered
from ..runtime.serdes.registry import registry_of
from ..suggestions import did_you_mean
from .kafka import KafkaTopics

_GROUP = "import"
"""The consumer group that brokers see. Nothing is committed for it."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_PLAIN = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML 1.1 reads as something else than a text."""


@dataclass(frozen=True)
class ImportedTopic:
    """`name`: of the topic. `text`: the YAML of its file."""

    name: str
    text: str


class FileExistsAlreadyError(HeadwaterError):
    """There is a file of this name. `path`: relative to the project."""

    def __init__(self, path: str) -> None:
        super().__init__(f"there is a file {path}", "--overwrite replaces it; without --write the YAML is printed")


class KafkaImport(KafkaTopics):
    """Declares topics of Kafka."""

    def import_topic(
        self, topic: str, *, cluster: str | None, key: str | None, value: str | None, records: int
    ) -> ImportedTopic:
        """See `Project.import_kafka_topic`."""
        clusters = self.clusters()
        catalog = PluginCatalog(self._files.plugins)
        for form in (key, value):
            if form is not None and form not in (known := catalog.names("serde")):
                raise UnknownNameError("format", form, did_you_mean(form, known) or f"formats: {', '.join(known)}")
        name = next(iter(clusters)) if cluster is None else cluster
        if name not in clusters or (cluster is None and len(clusters) > 1):
            names = f"the clusters are {', '.join(clusters)}"
            if cluster is None:
                raise HeadwaterError("the target has several clusters of Kafka", f"choose one with --cluster: {names}")
            raise UnknownNameError("cluster of Kafka", name, did_you_mean(name, clusters) or names)
        with client_of_kafka():
            from ..runtime.kafka.inspection import KafkaInspection
        inspection = KafkaInspection(name, clusters[name])
        metadata, settings = inspection.described(topic)
        keys, values = list[Payload](), list[Payload]()
        count = 0
        for partition, batch in inspection.last_records(metadata, _GROUP, max(1, -(-records // metadata.partitions))):
            places = [f"{topic}[{partition}]@{offset}" for offset in batch.column("offset").to_pylist()]
            count += len(places)
            for payloads, role in ((keys, "key"), (values, "value")):
                found = zip(places, batch.column(role).to_pylist(), strict=True)
                payloads += [(place, payload) for place, payload in found if payload is not None]
        text = "".join(
            f"{line}\n"
            for line in _lines(
                topic,
                name if len(clusters) > 1 else None,
                metadata.partitions,
                settings.get("cleanup.policy", "delete"),
                _found(keys, "key", key, clusters[name]),
                _found(values, "value", value, clusters[name]),
                count,
            )
        )
        return ImportedTopic(topic, text)

    def write(self, imported: ImportedTopic, *, overwrite: bool) -> str:
        """Write the declaration to `topics/<name>.yml`, and give this path. Raises FileExistsAlreadyError."""
        path = f"topics/{imported.name}.yml"
        file = self._files.root / path
        if file.exists() and not overwrite:
            raise FileExistsAlreadyError(path)
        file.parent.mkdir(exist_ok=True)
        write_text(file, imported.text)
        return path


def _lines(
    topic: str,
    cluster: str | None,
    partitions: int,
    cleanup: str,
    key: Inferred | None,
    value: Inferred | None,
    count: int,
) -> Iterator[str]:
    yield f"# Imported from {topic} in Kafka: types and formats are those of {count:,} of its last records."
    yield "topics:"
    yield f"  {_scalar(topic)}:"
    yield f"    partitions: {partitions}  # in the log; another number is possible"
    if key is not None:
        yield from _columns("key", key)
    else:
        yield "    # no key: all keys are null"
    yield from _columns("value", value or Inferred("json", (), "no values"))
    if "compact" in cleanup:
        yield f"    cleanup: {cleanup if 'delete' not in cleanup else 'compact,delete'}"
    kafka = {
        "cluster": None if cluster is None else _scalar(cluster),
        "key": None if key is None else _format(key),
        "value": None if value is None else _format(value),
    }
    written = ", ".join(f"{name}: {word}" for name, word in kafka.items() if word is not None)
    yield f"    kafka: {{{written}}}"


def _found(payloads: Sequence[Payload], role: str, wanted: str | None, cluster: KafkaCluster) -> Inferred | None:
    """The format and columns of keys or values: by their schema, if the cluster has a registry with it."""
    found = registered(registry_of(cluster.registry), payloads) if cluster.registry is not None else None
    return found if found is not None and wanted in (None, found.format) else inferred(payloads, role, wanted)


def _format(found: Inferred) -> str | None:
    """The format as it is declared; None for the default."""
    if found.options:
        options = "".join(f", {name}: {_scalar(word)}" for name, word in found.options.items())
        return f"{{format: {_scalar(found.format)}{options}}}"
    return None if found.format == "json" else _scalar(found.format)


def _columns(role: str, found: Inferred) -> Iterator[str]:
    guess = "" if found.certain else ", so this is a guess"
    yield f"    # {role}s: {found.why}{guess}"
    declared = [column for column in found.columns if column.type is not None]
    if declared:
        yield f"    {role}:"
        for column in found.columns:
            yield f"      {_column(column)}"
    else:
        yield f"    {role}: {{}}"
        for column in found.columns:
            yield f"    {_column(column)}"


def _column(column: Column) -> str:
    name = _scalar(column.name)
    if column.type is None:
        return f"# {name} is omitted: {column.note}"
    return f"{name}: {_scalar(ddl(column.type))}" + (f"  # {column.note}" if column.note else "")


def _scalar(text: str) -> str:
    """A text in YAML, in quotes if it would be anything else without."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    return json.dumps(text, ensure_ascii=True)
