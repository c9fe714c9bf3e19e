"""The built-in plugins, registered through the same hooks as other plugins. They are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..plugins import hookimpl
from ..plugins.hookspecs import Register

if TYPE_CHECKING:
    from .log.log import Log
    from .serdes.serde import Serde


REQUIRED: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("store_backend", "rocksdb"): {"rocksdict": "headwater[rocksdb]"},
    ("log", "object_store"): {"obstore": "headwater[object-store]"},
    ("serde", "protobuf"): {"google.protobuf": "headwater[protobuf]", "protoc": "headwater[protobuf]"},
}
"""Kind and name of a built-in plugin -> the modules that it needs -> the argument of `pip install` for them."""


def _options(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of options with exactly these properties."""
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


@hookimpl
def headwater_register_assignors(register: Register) -> None:
    """Register `high_availability`, `sticky`, `fallback`, `balanced` and `balanced_count`."""
    register(
        "high_availability",
        "headwater.runtime.assignment.high_availability:HighAvailability",
        description="Equal loads; a task stays where its state is until its intended client has caught up.",
    )
    register(
        "sticky",
        "headwater.runtime.assignment.sticky:Sticky",
        description="As few moves as quotas by threads allow, wherever state is.",
    )
    register(
        "fallback",
        "headwater.runtime.assignment.sticky:Fallback",
        description="Every task stays where it was; for when it is unknown how far copies are behind.",
    )
    register(
        "balanced",
        "headwater.runtime.assignment.balanced:Balanced",
        _options(
            restore_bytes_per_second={
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "How fast one client restores; default 50,000,000.",
            },
            movement_weight={
                "type": "number",
                "minimum": 0,
                "description": "Weight of a second of moving state against one of waiting for tasks; default 0.1.",
            },
            allowed_imbalance={
                "type": "number",
                "minimum": 0,
                "description": "Part of its share by which a client's load may differ from it; default 0.1.",
            },
            cross_rack_seconds={
                "type": "number",
                "minimum": 0,
                "description": "The cost of reading a partition from another rack, in seconds; default 1.",
            },
        ),
        "All tasks run again soon and little state is moved, by the measured rates and sizes of tasks.",
    )
    register(
        "balanced_count",
        "headwater.runtime.assignment.balanced:BalancedCount",
        description="Equal numbers of tasks for each thread; a task stays where it was as far as these allow.",
    )


@hookimpl
def headwater_register_restore_strategies(register: Register) -> None:
    """Register `changelog` and `snapshot`."""
    register(
        "changelog",
        "headwater.runtime.restore.strategies:ChangelogRestore",
        _options(slice_records={"type": "integer", "minimum": 1, "description": "Most records applied in one step."}),
        "Applies the changelog from the store's position on.",
    )
    register(
        "snapshot",
        "headwater.runtime.restore.strategies:SnapshotRestore",
        _options(
            every_epochs={
                "type": "integer",
                "minimum": 1,
                "description": "Save a store when it has changed in so many epochs.",
            },
            every_bytes={
                "type": "integer",
                "minimum": 1,
                "description": "Save a store when its changelog has grown by so many bytes; without both options: by "
                "64 MiB, or half of the last snapshot.",
            },
            keep={"type": "integer", "minimum": 1, "description": "Snapshots kept of each store; default 2."},
        ),
        "Loads a copy of the store from the log, and applies what the changelog has since.",
    )


@hookimpl
def headwater_register_store_backends(register: Register) -> None:
    """Register `lmdb`, `memory` and `rocksdb`."""
    register(
        "lmdb",
        "headwater.runtime.state.lmdb.store:LmdbBackend",
        _options(map_size={"type": "integer", "minimum": 65536, "description": "The initial size in bytes; it grows."}),
        "Transactional files in the state directory; they survive restarts of clients and machines.",
    )
    register(
        "memory",
        "headwater.runtime.state.memory:MemoryBackend",
        _options(path={"type": "string", "description": "The folder; default /dev/shm, or the temporary directory."}),
        "A file system in memory; the stores are restored after a restart of the machine.",
    )
    register(
        "rocksdb",
        "headwater.runtime.state.rocksdb.store:RocksdbBackend",
        _options(
            write_buffer_size={
                "type": "integer",
                "minimum": 65536,
                "description": "Bytes of changes in memory before they go into a file; default 16 MB.",
            },
            block_cache_size={
                "type": "integer",
                "minimum": 0,
                "description": "Bytes of a process that its stores with this setting share to read; default 50 MB.",
            },
            compression={"enum": ["none", "lz4", "zstd"], "description": "How files are compressed; default lz4."},
        ),
        "Compressed files in the state directory, not transactional: a store whose process is killed is restored.",
        requires=REQUIRED["store_backend", "rocksdb"],
        needs_changelog=True,
    )


@hookimpl
def headwater_register_logs(register: Register) -> None:
    """Register `embedded` and `object_store`."""
    register(
        "embedded",
        _embedded_log,
        _options(
            ("path",),
            path={"type": "string", "description": "The folder of the log."},
        ),
        "Files below one folder of a local file system, without a server.",
    )
    register(
        "object_store",
        "headwater.runtime.log.object_store.log:ObjectStoreLog",
        _options(
            ("uri",),
            uri={
                "type": "string",
                "pattern": "^(s3://[^/]+(/.*)?|file:///.*)$",
                "description": "s3://bucket/prefix, or file:///folder to try it.",
            },
            region={"type": "string", "description": "The bucket's region; default AWS_REGION, or us-east-1."},
            endpoint={
                "type": "string",
                "pattern": "^https?://",
                "description": "The address of a server that is not Amazon's.",
            },
            access_key_id={"type": "string", "description": "Name a variable with env_var."},
            secret_access_key={"type": "string", "description": "Name a variable with env_var."},
            session_token={"type": "string", "description": "Name a variable with env_var."},
            look_every={
                "type": "string",
                "pattern": "^[0-9]{1,9}(ms|s|m)$",
                "description": "How often a driver looks for commits of others; default 1s.",
            },
        ),
        "Objects below one prefix of an object store with conditional writes.",
        requires=REQUIRED["log", "object_store"],
    )


def _embedded_log(path: str) -> Log:
    from .log.embedded.log import EmbeddedLog

    return EmbeddedLog(path)


@hookimpl
def headwater_register_serdes(register: Register) -> None:
    """Register `json`, the formats with a schema registry, and those of one column."""
    register(
        "json", _json_serde, _options(envelope=_ENVELOPE), description="JSON objects with a field for each column."
    )
    register(
        "protobuf",
        "headwater.runtime.serdes.protobuf.serde:protobuf_serde",
        _options() | {"properties": {**_SCHEMA_OPTIONS, "message": _MESSAGE}},
        description="Protobuf messages with a field for each column, and a schema in a registry.",
        requires=REQUIRED["serde", "protobuf"],
    )
    register(
        "json_schema",
        "headwater.runtime.serdes.json_schema:json_schema_serde",
        _options() | {"properties": {**_SCHEMA_OPTIONS, "envelope": _ENVELOPE}},
        description="JSON objects with a field for each column, and a JSON Schema in a registry.",
    )
    register(
        "avro",
        "headwater.runtime.serdes.avro:avro_serde",
        _options() | {"properties": {**_SCHEMA_OPTIONS, "record": _RECORD, "envelope": _ENVELOPE}},
        "Records of Avro with a field for each column, and a schema in a registry.",
    )
    for name, description in _PRIMITIVES.items():
        register(name, partial(_primitive_serde, name), description=description)


_SCHEMA_OPTIONS: dict[str, dict[str, Any]] = {
    "subject": {
        "type": "string",
        "minLength": 1,
        "description": "The subject of the schema; default: by the strategy.",
    },
    "subject_name_strategy": {
        "enum": ["topic", "record", "topic_record"],
        "description": "topic (the default): TOPIC-key or TOPIC-value; record: the record's full name; topic_record.",
    },
    "register": {
        "type": "boolean",
        "description": "Whether a run registers the schema of the columns; default false: it has to be there.",
    },
}
"""The options of all formats with a registry."""

_RECORD = {"type": "string", "description": "The full name of the record that is registered, as shop.Order."}

_MESSAGE = {
    "type": "string",
    "minLength": 1,
    "description": "The message of the schema, with its package; default: the first one.",
}

_PRIMITIVES = {
    "string": "One text, in UTF-8.",
    "binary": "One column of bytes, as they are.",
    "uuid": "One text that is a UUID.",
    "boolean": "One boolean: a byte, 0 or 1.",
    "smallint": "One integer of 2 bytes, big endian.",
    "int": "One integer of 4 bytes, big endian.",
    "bigint": "One integer of 8 bytes, big endian.",
    "float": "One number of 4 bytes, big endian.",
    "double": "One number of 8 bytes, big endian.",
}
"""The formats of one column, each with its description."""


_ENVELOPE = {
    "enum": ["debezium"],
    "description": "Of a topic that is read: debezium, for changes of rows as Debezium writes them.",
}


def _json_serde(envelope: str | None = None) -> Serde:
    from .serdes.json import JsonSerde

    if envelope is None:
        return JsonSerde()
    from .serdes.connect_json import ConnectJsonSerde
    from .serdes.debezium import DebeziumSerde

    return DebeziumSerde(ConnectJsonSerde())


def _primitive_serde(name: str) -> Serde:
    from .serdes.primitives import PRIMITIVES, PrimitiveSerde

    return PrimitiveSerde(PRIMITIVES[name])
