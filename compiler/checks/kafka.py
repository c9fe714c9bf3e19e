"""Checks of Kafka: clusters of the target, and topics with `kafka:`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.errors import PluginOptionsError
from ...runtime.ir.topology import PluginRef, SchemaRegistry, Topic
from ...runtime.pinned_settings import PINNED_OF_KAFKA, settings_of_kafka
from ..diagnostics import Diagnostics, did_you_mean
from ..entries import KafkaModel, TopicModel, mapping, scalar
from ..model.project import FROM_KAFKA, TO_KAFKA, ProjectModel
from ..reading.files import FromEnvironment
from ..reading.load import LoadedProject
from ..reading.source import MappingNode, ScalarNode
from ..target_settings import PEMS, SECURITY, is_pem
from .plugins import PluginCatalog
from .target import check_start

if TYPE_CHECKING:
    from ...runtime.serdes.serde import Serde

_INSTEAD = {
    "bootstrap.servers": "Write the addresses as `bootstrap_servers` of the cluster.",
    "group.id": "Groups are named after applications: write a `prefix`.",
    "transactional.id": "Transactional ids are named after applications: write a `prefix`.",
    "auto.offset.reset": "Write `start` under `kafka` of a topic.",
}


def check_kafka(model: ProjectModel, loaded: LoadedProject, diagnostics: Diagnostics) -> None:
    """Check the clusters of the target, and what topics are in Kafka."""
    clusters = mapping(loaded.target, "kafka")
    for entry in clusters.entries if clusters is not None else ():
        if isinstance(entry.node, MappingNode):
            _check_security(mapping(entry.node, "security"), loaded.root, diagnostics)
            _check_client(entry.node, diagnostics)
            _check_pems(mapping(entry.node, "registry"), {"ca"}, loaded.root, diagnostics)
    _check_names(model, diagnostics)
    for topic in model.external_in_kafka:
        _check_cluster(topic, model, diagnostics)
        kafka = _kafka(topic)
        if kafka.start is not None:
            check_start(kafka.start, diagnostics)
        if kafka.recomputed is not None:
            message = (
                f"No flow writes '{topic.name.text}': it is read from Kafka, and `recomputed` is for written topics."
            )
            diagnostics.add("HW771", kafka.recomputed.position, message, "Remove `recomputed`.")
    for topic in model.output_in_kafka:
        _check_cluster(topic, model, diagnostics)
        start = _kafka(topic).start or _kafka(topic).group
        if start is not None:
            message = (
                f"A flow writes '{topic.name.text}', so it is written to Kafka; `start` is for topics read from it."
            )
            diagnostics.add("HW771", start.position, message, "Remove `start`.")
        _check_recomputed(topic, diagnostics)
    for topic in (*model.external_in_kafka, *model.output_in_kafka):
        windows = _kafka(topic).windows
        if windows is not None and not topic.windowed:
            message = f"The keys of '{topic.name.text}' have no windows: it is not `windowed`."
            diagnostics.add("HW777", windows.position, message, "Remove `windows`, or write `windowed: true`.")
    _check_twins(model, diagnostics)


def _check_recomputed(topic: TopicModel, diagnostics: Diagnostics) -> None:
    """Report `recomputed: changes` of a topic that is no table: there, values cannot be compared by key."""
    kafka = _kafka(topic)
    if kafka.recomputed is None or not _is_compared(kafka):
        return
    name, position = topic.name.text, kafka.recomputed.position
    if not topic.key or "compact" not in topic.cleanup:
        message = (
            f"`changes` compares the last values of keys, and '{name}' is no table: it needs a key and compaction."
        )
        hint = "Write `append`, or a `key` and `cleanup: compact` if a record replaces earlier ones of its key."
        diagnostics.add("HW778", position, message, hint)
    elif kafka.windows is not None and kafka.windows.text == "drop":
        message = f"The windows of '{name}' have one key in Kafka (`windows: drop`), so `changes` cannot compare them."
        diagnostics.add("HW778", position, message, "Write `append`, or other `windows`.")


def _is_compared(kafka: KafkaModel) -> bool:
    """Whether keys in Kafka are read, to compare their values."""
    return kafka.recomputed is not None and kafka.recomputed.text == "changes"


def _kafka(topic: TopicModel) -> KafkaModel:
    assert topic.kafka is not None
    return topic.kafka


def _check_names(model: ProjectModel, diagnostics: Diagnostics) -> None:
    """Report topologies with the names of those that copy topics."""
    if model.external_in_kafka or model.output_in_kafka:
        for name, topology in model.topologies.items():
            if name in (FROM_KAFKA, TO_KAFKA):
                message = f"'{name}' is not allowed as a topology's name, because topics in Kafka are copied under it."
                diagnostics.add("HW209", topology.name.position, message, "Rename the topology.")


def _check_cluster(topic: TopicModel, model: ProjectModel, diagnostics: Diagnostics) -> None:
    kafka, clusters = _kafka(topic), model.clusters
    if kafka.cluster is None:
        if len(clusters) > 1:
            message = f"The target has several clusters of Kafka, and '{topic.name.text}' names none."
            diagnostics.add("HW770", kafka.word.position, message, f"Write `cluster`: {' or '.join(clusters)}.")
    elif clusters and kafka.cluster.text not in clusters:
        message = f"The target has no cluster '{kafka.cluster.text}' of Kafka."
        hint = did_you_mean(kafka.cluster.text, clusters) or f"Its clusters are: {', '.join(clusters)}."
        diagnostics.add("HW770", kafka.cluster.position, message, hint)


def _check_twins(model: ProjectModel, diagnostics: Diagnostics) -> None:
    """Report topics that are one topic in Kafka."""
    only = model.clusters[0] if len(model.clusters) == 1 else ""
    firsts: dict[tuple[str, str], TopicModel] = {}
    read = {topic.name.text for topic in model.external_in_kafka}
    for topic in (*model.external_in_kafka, *model.output_in_kafka):
        kafka = _kafka(topic)
        name = topic.name if kafka.topic is None else kafka.topic
        cluster = only if kafka.cluster is None else kafka.cluster.text
        first = firsts.setdefault((cluster, name.text), topic)
        if first is topic:
            continue
        at = kafka.word if kafka.topic is None else kafka.topic
        one, other = first.name.text, topic.name.text
        message = f"'{one}' and '{other}' are one topic in Kafka, '{name.text}'."
        hint = "Declare one topic, and let several flows read it."
        if one in read and other not in read:
            message = f"'{one}' is read from the topic '{name.text}' in Kafka, and '{other}' is written to it: a loop."
            hint = "Write to another topic: `topic` under `kafka` names it."
        elif one not in read:
            hint = "Write one of them to another topic, or merge their flows with `from: [a, b]`."
        diagnostics.add("HW774", at.position, message, hint)


# Formats.


def check_formats(
    model: ProjectModel, topics: Mapping[str, Topic], catalog: PluginCatalog, diagnostics: Diagnostics
) -> None:
    """Report formats that cannot hold the columns of their topics. Loads Arrow and the formats.

    `topics`: of the project. Unknown formats, their wrong options and missing packages are reported elsewhere.
    """
    for topic in (*model.external_in_kafka, *model.output_in_kafka):
        columns = (*topic.key.values(), *topic.value.values())
        if not topic.lost and all(column.type is not None for column in columns):
            registry = _registry(topic, model)
            is_written = topic in model.output_in_kafka
            _check_format(topic, topics[topic.name.text], is_written, registry, catalog, diagnostics)


def _registry(topic: TopicModel, model: ProjectModel) -> SchemaRegistry | None:
    """Whether the topic's cluster has a schema registry. Its settings do not matter: nothing is asked.

    In a target without Kafka it is unknown, and so in the place of an unknown cluster, which is reported.
    """
    cluster = _kafka(topic).cluster
    name = cluster.text if cluster is not None else model.clusters[0] if len(model.clusters) == 1 else None
    return None if name in model.clusters and name not in model.registries else SchemaRegistry("")


def _check_format(
    topic: TopicModel,
    declared: Topic,
    is_written: bool,
    registry: SchemaRegistry | None,
    catalog: PluginCatalog,
    diagnostics: Diagnostics,
) -> None:
    from ...runtime.records.schema import key_columns, value_columns
    from ...runtime.serdes.serde import Direction, PayloadSpec, Problem, Role

    kafka = _kafka(topic)
    direction = Direction.WRITE if is_written else Direction.READ
    name = topic.name.text if kafka.topic is None else kafka.topic.text
    sides = (
        (Role.KEY, kafka.key, kafka.key_format, key_columns(declared), topic.key),
        (Role.VALUE, kafka.value, kafka.value_format, value_columns(declared), topic.value),
    )
    for role, use, form, types, columns in sides:
        if role is Role.KEY and kafka.windows is not None and not topic.windowed:
            continue  # which is reported
        serde = _serde(form, catalog)
        if serde is None:
            continue
        spec, problems = PayloadSpec(name, role, types, registry), dict[Problem, None]()
        for way in (direction, Direction.READ) if role is Role.KEY and _is_compared(kafka) else (direction,):
            problems |= dict.fromkeys(serde.check(spec, way))
        for problem in problems:
            at = kafka.word if use is None else use.name
            if (column := columns.get(problem.column or "")) is not None:
                at = column.name
            message, _, way_out = problem.message.partition("; ")
            diagnostics.add("HW775", at.position, _sentence(message), _sentence(way_out) if way_out else None)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _serde(form: PluginRef, catalog: PluginCatalog) -> Serde | None:
    """The serde of a format; None if it is unknown, or its options are wrong."""
    from ...runtime.serdes.windows import serde_of

    if form.name not in catalog.names("serde") or catalog.missing("serde", form.name):
        return None
    try:
        return serde_of(form, catalog.serde)
    except PluginOptionsError:
        return None


# Clusters.


def _check_security(security: MappingNode | None, root: Path, diagnostics: Diagnostics) -> None:
    """Report keys that do not fit the protocol, and missing PEM files."""
    protocol = scalar(security, "protocol")
    if security is None or protocol is None:
        return
    given = {key: node for key in SECURITY if (node := scalar(security, key)) is not None}
    encrypts, logs_in = protocol.text.endswith("ssl"), protocol.text.startswith("sasl_")
    for key, message, hint in _unfit(given, encrypts, logs_in):
        diagnostics.add("HW772", security.key_position(key), message, hint)
    _check_pems(security, PEMS, root, diagnostics)


def _check_pems(section: MappingNode | None, keys: Iterable[str], root: Path, diagnostics: Diagnostics) -> None:
    """Report missing PEM files."""
    for path in (node for key in sorted(keys) if (node := scalar(section, key)) is not None):
        if isinstance(path.value, FromEnvironment) or is_pem(path.text) or Path(path.text).is_absolute():
            continue
        if not (root / path.text).is_file():
            message = f"There is no PEM file '{path.text}' in the project's folder."
            diagnostics.add("HW776", path.position, message, "Add the file, fix the path, or write the text itself.")


def _unfit(given: Mapping[str, ScalarNode], encrypts: bool, logs_in: bool) -> Iterator[tuple[str, str, str]]:
    """(Key, message, hint) of what does not fit the protocol."""
    mechanism = given["mechanism"].text if "mechanism" in given else None
    if logs_in and mechanism is None:
        hint = "Write a `mechanism` with `username` and `password`, or a protocol without sasl."
        yield "protocol", "This protocol logs in, and there is no `mechanism`.", hint
    elif logs_in and mechanism != "OAUTHBEARER" and "username" not in given:
        yield "mechanism", "This mechanism needs a `username` and a `password`.", "Add both."
    elif logs_in and mechanism == "OAUTHBEARER" and "username" in given:
        yield "username", "OAUTHBEARER has no `username`.", "Write its settings under `client`."
    for key in () if logs_in else ("mechanism", "username"):
        if key in given:
            yield key, f"This protocol does not log in, so it has no `{key}`.", "Write a sasl protocol, or remove it."
    for key in () if encrypts else ("ca", "certificate"):
        if key in given:
            hint = "Write a protocol with ssl, or remove it."
            yield key, f"This protocol does not encrypt, so it has no `{key}`.", hint


def _check_client(cluster: MappingNode, diagnostics: Diagnostics) -> None:
    """Report settings that librdkafka does not have, that Headwater decides, or that `security` has set."""
    client, security = mapping(cluster, "client"), mapping(cluster, "security")
    settings = {setting: key for key, setting in SECURITY.items() if security is not None and key in security}
    for entry in client.entries if client is not None else ():
        name = entry.name
        if name in settings:
            message = f"`{settings[name]}` under `security` sets {name} already."
            diagnostics.add("HW773", entry.key.position, message, "Keep one of them.")
        elif name in PINNED_OF_KAFKA:
            message = f"Headwater itself decides {name}."
            diagnostics.add("HW773", entry.key.position, message, _INSTEAD.get(name, "Remove it."))
        elif name not in settings_of_kafka().names:
            known = settings_of_kafka()
            message = f"librdkafka {known.version} has no setting '{name}'."
            hint = did_you_mean(name, known.names) or "Its CONFIGURATION.md lists all settings."
            diagnostics.add("HW779", entry.key.position, message, hint)
