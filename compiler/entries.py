"""Entries of a project's files as typed data, read from YAML nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from ..runtime.engine.operators.operator import Emit
from ..runtime.environment import parse_duration
from ..runtime.expressions.types import canonical, ddl
from ..runtime.ir.topology import OnError, PluginRef, Store, StoreType
from .diagnostics import Diagnostics
from .reading.source import MappingNode, Node, ScalarNode, SequenceNode

# Values of expected kinds. Values of another kind count as missing: the schema's check has reported them.

_Default = TypeVar("_Default")


def named(node: MappingNode, key: str) -> Iterator[tuple[ScalarNode, MappingNode]]:
    """The entries of a section as mappings; an entry of another kind counts as empty."""
    section = mapping(node, key)
    for entry in section.entries if section else ():
        yield entry.key, entry.node if isinstance(entry.node, MappingNode) else MappingNode((), entry.key.position)


def pairs(node: MappingNode, key: str) -> Iterator[tuple[ScalarNode, ScalarNode]]:
    """The entries of a section that are single values."""
    section = mapping(node, key)
    if section is not None:
        yield from entries(section)


def entries(node: Node) -> Iterator[tuple[ScalarNode, ScalarNode]]:
    """The entries of a mapping that are single values."""
    for entry in node.entries if isinstance(node, MappingNode) else ():
        if isinstance(entry.node, ScalarNode):
            yield entry.key, entry.node


def scalars(node: Node | None) -> Iterator[ScalarNode]:
    """The value, or the values of a list."""
    if isinstance(node, ScalarNode) and node.value is not None:
        yield node
    elif isinstance(node, SequenceNode):
        yield from (item for item in node if isinstance(item, ScalarNode) and item.value is not None)


def mapping(node: MappingNode | None, key: str) -> MappingNode | None:
    """The section at a key; None if missing."""
    value = node.get(key) if node else None
    return value if isinstance(value, MappingNode) else None


def scalar(node: MappingNode | None, key: str) -> ScalarNode | None:
    """The value at a key; None if it is missing or null."""
    value = node.get(key) if node else None
    return value if isinstance(value, ScalarNode) and value.value is not None else None


def text(node: MappingNode | None, key: str, default: _Default) -> str | _Default:
    """The text at a key."""
    value = scalar(node, key)
    return default if value is None else value.text


def integer(node: MappingNode | None, key: str, default: _Default) -> int | _Default:
    """The whole number at a key."""
    value = scalar(node, key)
    return value.value if value is not None and type(value.value) is int else default


def flag(node: MappingNode | None, key: str, default: bool) -> bool:
    """The boolean at a key."""
    value = scalar(node, key)
    return value.value if value is not None and isinstance(value.value, bool) else default


def milliseconds(duration: ScalarNode | None) -> int | None:
    """A duration in milliseconds; None if it is not a duration."""
    if duration is None:
        return None
    try:
        return parse_duration(duration.text)
    except ValueError:
        return None


# Topics, tables, stores, and uses of plugins.
#
# References are names (`ScalarNode`s, which have positions). Durations are in milliseconds. Wrong values are already
# reported, and missing here.

Columns = AbstractMapping[str, "Column"]


@dataclass(frozen=True)
class Column:
    """A declared column. `type`: canonical; None if it is wrong, which was reported."""

    name: ScalarNode
    type: str | None


@dataclass(frozen=True)
class PluginUse:
    """A plugin by name, with its options as written."""

    name: ScalarNode
    options: MappingNode | None = None


@dataclass(frozen=True)
class KafkaModel:
    """`kafka:` of a topic: what it is in Kafka.

    `key`, `value`: the formats; None for the default. `windows`, `window_size`: how the windows of keys are written.
    `start`: where its copy begins, `group`: at the offsets of this consumer group; None: at the first record.
    `recomputed`: what becomes of written records if the result is rebuilt; None: it is not rebuilt. `headers`: `keep`,
    `drop`, or None for the default.
    """

    word: ScalarNode
    topic: ScalarNode | None = None
    cluster: ScalarNode | None = None
    key: PluginUse | None = None
    value: PluginUse | None = None
    windows: ScalarNode | None = None
    window_size: ScalarNode | None = None
    start: ScalarNode | None = None
    recomputed: ScalarNode | None = None
    group: ScalarNode | None = None
    headers: ScalarNode | None = None

    @property
    def key_format(self) -> PluginRef:
        """The format of keys, with `windows` and `window_size` among its options."""
        written = {"windows": self.windows, "window_size": self.window_size}
        windows = {name: node.text for name, node in written.items() if node is not None}
        plain = _format(self.key)
        return replace(plain, options={**plain.options, **windows})

    @property
    def value_format(self) -> PluginRef:
        """The format of values."""
        return _format(self.value)


def _format(use: PluginUse | None) -> PluginRef:
    if use is None:
        return PluginRef("json")
    return PluginRef(use.name.text, {} if use.options is None else use.options.to_python())


@dataclass(frozen=True)
class TopicModel:
    """A topic declared in `topics/`. `readers`: the applications that read it.

    `kafka`: what it is in targets with Kafka; None: a topic of the log. `lost`: some of its columns could not be read,
    which was reported.
    """

    name: ScalarNode
    partitions: int
    key: Columns
    value: Columns
    windowed: bool = False
    timestamp: ScalarNode | None = None
    cleanup: str = "delete"
    retention_ms: int | None = None
    seed: MappingNode | None = None
    on_error: OnError = "fail"
    readers: tuple[str, ...] = ()
    kafka: KafkaModel | None = None
    lost: bool = False


@dataclass(frozen=True)
class TableModel:
    """An entry of `tables:`. `emit`: `per_epoch` or `each_update`. `was`: its former names, the latest first."""

    name: ScalarNode
    topic: ScalarNode
    store: ScalarNode | None = None
    is_global: bool = False
    emit: Emit = "per_epoch"
    description: str = ""
    was: tuple[ScalarNode, ...] = ()


@dataclass(frozen=True)
class StoreModel:
    """An entry of `stores:`.

    `type`: None if the step determines it. `retention`: the scalar, with its position. `was`: its former names, the
    latest first. `key`, `value`: the columns of a processor's store; None if the step determines them.
    """

    name: ScalarNode
    type: str | None = None
    backend: PluginUse | None = None
    retention_ms: int | None = None
    retention: ScalarNode | None = None
    changelog: bool = True
    cleanup: str | None = None
    was: tuple[ScalarNode, ...] = ()
    key: Columns | None = None
    value: Columns | None = None


# Parts of several kinds of entries: `emit`, and names of columns.

Pairs = tuple[tuple[ScalarNode, ScalarNode], ...]
"""Names with their expressions."""

_RESERVED = frozenset({"_key", "_timestamp", "_offset", "_partition", "_headers", "window_start", "window_end"})
_PIPE_COLUMNS = frozenset({"_kind", "_ts", "_order", "_meta", "_now"})


@dataclass(frozen=True)
class Reader:
    """Reads parts of entries, and reports mistakes that a schema cannot find."""

    diagnostics: Diagnostics

    def emit(self, node: MappingNode | None) -> Emit:
        """The `emit` of a table: `per_epoch` or `each_update`."""
        emit = scalar(node, "emit")
        return "each_update" if emit is not None and emit.text == "each_update" else "per_epoch"

    def columns(self, pairs: Iterable[tuple[ScalarNode, ScalarNode]]) -> Pairs:
        """New columns with their expressions. Reserved names are reported."""
        columns = tuple(pairs)
        for name, _ in columns:
            self.column_name(name)
        return columns

    def declared(self, section: MappingNode | None) -> dict[str, Column]:
        """Declared columns by name. Reports reserved names, and names that are the same to Spark SQL."""
        columns: dict[str, Column] = {}
        names: dict[str, str] = {}
        for entry in section.entries if section is not None else ():
            name, type_ = entry.key, entry.node
            self.column_name(name)
            twin = names.setdefault(name.text.casefold(), name.text)
            if twin != name.text:
                message = f"'{name.text}' and '{twin}' are the same column to Spark SQL."
                self.diagnostics.add("HW516", name.position, message)
            try:
                columns[name.text] = Column(name, canonical(type_.text) if isinstance(type_, ScalarNode) else None)
            except ValueError:
                columns[name.text] = Column(name, None)
        return columns

    def column_name(self, name: ScalarNode) -> None:
        """Report a column with a reserved name."""
        if name.text in _RESERVED:
            message = f"The column name '{name.text}' is reserved."
        elif name.text in _PIPE_COLUMNS or name.text.startswith(("@", "key.")):
            message = f"The column name '{name.text}' is reserved for internal columns of a job."
        else:
            return
        self.diagnostics.add("HW508", name.position, message, "Rename the column.")


# Declarations of stores for the runtime, from `stores:` and the step with the store.

UNKNOWN_TYPE = "string"
"""The placeholder of an unknown type. No code is generated from a project with unknown types."""


def columns_ddl(columns: Mapping[str, str | None]) -> str:
    """Columns as Spark SQL DDL."""
    return ddl({name: type_ or UNKNOWN_TYPE for name, type_ in columns.items()})


def check_no_processors(model: StoreModel, type_: str, diagnostics: Diagnostics) -> None:
    """Report settings that only stores of processors may have. `type_`: the type that another step needs."""
    if type_ == "key_value" and model.retention is not None:
        message = (
            "Only a key_value store of processors may have a 'retention'; others keep rows until they are deleted."
        )
        diagnostics.add("HW210", model.retention.position, message, "Remove it.")
    if model.key is not None or model.value is not None:
        message = f"'{model.name.text}' declares columns, but is not used by a processor: its step determines them."
        diagnostics.add("HW542", model.name.position, message, "Remove `key` and `value`.")


def declared_store(
    name: str,
    model: StoreModel | None,
    type_: str,
    key: Mapping[str, str | None],
    value: Mapping[str, str | None],
    partitions: int,
) -> Store:
    """A store with the backend and changelog of its `stores:` entry, or with the defaults."""
    backend = model.backend if model else None
    store = Store(
        name=name,
        partitions=partitions,
        key=columns_ddl(key),
        value=columns_ddl(value),
        type=cast(StoreType, type_),
        backend=backend.name.text if backend else "lmdb",
        options=backend.options.to_python() if backend and backend.options else {},
        changelog=model.changelog if model else True,
    )
    if type_ == "key_value" and model is not None:
        store = replace(store, retention_ms=model.retention_ms)
    if model is None or model.cleanup in (None, store.changelog_cleanup):
        return store
    return replace(store, cleanup=model.cleanup)


def dead_letter_name(topology: str, topic: str) -> str:
    """The name of a topology's topic of dead letters of a topic.

    `topic`: for a repartition topic, the name without the application. Topologies do not share a topic of dead letters,
    because a topic has one writer, and one topology may be able to process records on which another one fails.
    """
    return f"{topology}_{topic}_dead_letter"
