"""Turns a target of `profiles.yml` into the settings of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..runtime.environment import parse_duration, pem_text
from ..runtime.ir.topology import KafkaCluster, PluginRef, SchemaRegistry, Settings
from .reading.files import DurationFromEnvironment, FromEnvironment
from .reading.load import LoadedProject
from .reading.source import without_notes

DEFAULT_LOG = ".headwater/log"
DEFAULT_STATE = ".headwater/state"
BUILTIN_LOGS = ("embedded", "object_store")
"""Logs with their options beside `type`."""


def settings_of(loaded: LoadedProject) -> Settings:
    """The settings of the chosen target, with defaults for missing ones. Paths are relative to the project's root.

    Only for a project without errors, with a target that is valid by the schema.
    """
    target: dict[str, Any] = loaded.target.to_python() if loaded.target is not None else {}
    epoch = target.get("epoch") or {}
    cleaner = target.get("cleaner") or {}
    racks = target.get("racks") or {}
    defaults = Settings(log=PluginRef("embedded"), state_dir=DEFAULT_STATE)

    def duration(section: Mapping[str, Any], key: str, default: int) -> int:
        return _duration(section[key]) if key in section else default

    return Settings(
        log=_log(target.get("log") or "embedded"),
        state_dir=target.get("state_dir", DEFAULT_STATE),
        clients=target.get("clients", defaults.clients),
        epoch_interval_ms=duration(epoch, "interval", defaults.epoch_interval_ms),
        max_records=epoch.get("max_records", defaults.max_records),
        max_bytes=epoch.get("max_bytes", defaults.max_bytes),
        deadline_ms=duration(epoch, "deadline", defaults.deadline_ms),
        state_cleanup_delay_ms=duration(target, "state_cleanup_delay", defaults.state_cleanup_delay_ms),
        clean=cleaner.get("enabled", defaults.clean),
        clean_interval_ms=duration(cleaner, "interval", defaults.clean_interval_ms),
        file_delete_delay_ms=duration(cleaner, "file_delete_delay", defaults.file_delete_delay_ms),
        delete_retention_ms=duration(cleaner, "delete_retention", defaults.delete_retention_ms),
        spark=spark_of(loaded),
        plugins=plugins_of(loaded),
        racks={} if "script" in racks else racks,
        rack_script=racks.get("script", ""),
        client_tags=target.get("client_tags") or {},
        kafka={name: _cluster(cluster) for name, cluster in (target.get("kafka") or {}).items()},
        lineage=without_notes(target.get("lineage") or {}),
        former_names=dict(_former_names(loaded)),
        engine=target.get("engine", defaults.engine),
    )


def _former_names(loaded: LoadedProject) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Applications with their former names."""
    for topology in loaded.topologies:
        was = topology.node.get("was")
        written = was.to_python() if was is not None else None
        names = [written] if isinstance(written, str) else written
        if isinstance(names, list) and names:
            yield f"{loaded.name}-{topology.name.text}", tuple(f"{loaded.name}-{name}" for name in names)


def spark_of(loaded: LoadedProject) -> dict[str, Any]:
    """Spark's settings, also for a project with errors, because its expressions are checked, too.

    The defaults, if `spark` is missing or not a mapping.
    """
    target = loaded.target.to_python() if loaded.target is not None else None
    written = target.get("spark") if isinstance(target, dict) else None
    if isinstance(written, dict) and written:
        return without_notes(written)
    return dict(Settings(log=PluginRef("embedded"), state_dir=DEFAULT_STATE).spark)


def plugins_of(loaded: LoadedProject) -> tuple[str, ...]:
    """The modules in `plugins`, also for a project with errors; invalid entries are ignored."""
    written = loaded.project.get("plugins")
    names = written.to_python() if written is not None else None
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def absolute(settings: Settings, root: Path) -> Settings:
    """The settings with absolute paths."""
    options = dict(settings.log.options)
    path = options.get("path")
    if isinstance(path, str) and "://" not in path:
        options["path"] = str(root / path)
    return replace(
        settings,
        log=PluginRef(settings.log.name, options),
        state_dir=str(root / settings.state_dir),
        rack_script=str(root / settings.rack_script) if settings.rack_script else "",
        lineage=dict(settings.lineage) | ({"file": str(root / file)} if (file := settings.lineage.get("file")) else {}),
        project_dir=str(root),
    )


PEM_BEGIN = "-----BEGIN"
"""The first characters of the text of a PEM file."""


def is_pem(text: str) -> bool:
    """Whether a value of `PEMS` is the text itself."""
    return text.lstrip().startswith(PEM_BEGIN)


def with_pems(settings: Settings, root: Path) -> Settings:
    """The settings of a run: with the texts of PEM files. Raises HeadwaterError for a file that cannot be read."""

    def text(value: Any) -> Any:
        return pem_text(root / value.path) if isinstance(value, PemFile) else value

    def with_texts(cluster: KafkaCluster) -> KafkaCluster:
        registry = cluster.registry and replace(cluster.registry, ca=text(cluster.registry.ca))
        client = {setting: text(value) for setting, value in cluster.client.items()}
        return replace(cluster, client=client, registry=registry)

    return replace(settings, kafka={name: with_texts(cluster) for name, cluster in settings.kafka.items()})


def _log(written: Any) -> PluginRef:
    """`embedded`, `{type: embedded, path: ...}`, or another plugin by `name` or `type` with `options`."""
    if isinstance(written, str):
        written = {"type": written}
    name = written.get("name") or written["type"]
    if "name" in written or name not in BUILTIN_LOGS:
        return PluginRef(name, dict(written.get("options") or {}))
    options = without_notes({key: value for key, value in written.items() if key != "type"})
    return PluginRef(name, {"path": DEFAULT_LOG} | options if name == "embedded" else options)


SECURITY: Mapping[str, str] = {
    "protocol": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password": "sasl.password",
    "ca": "ssl.ca.pem",
    "certificate": "ssl.certificate.pem",
    "key": "ssl.key.pem",
    "key_password": "ssl.key.password",
}
"""Keys under `security` of a Kafka cluster -> settings of librdkafka."""

PEMS = frozenset({"ca", "certificate", "key"})
"""Those with the path of a PEM file, or its text."""


@dataclass(frozen=True)
class PemFile:
    """The path of a PEM file, relative to the project's root, in place of its text, which runs read: `with_pems`."""

    path: str


def _cluster(written: Mapping[str, Any]) -> KafkaCluster:
    """A Kafka cluster, with its `security` as settings of librdkafka."""
    security = written.get("security") or {}
    client = {
        setting: PemFile(security[key]) if key in PEMS and not is_pem(security[key]) else security[key]
        for key, setting in SECURITY.items()
        if key in security
    }
    if security.get("mechanism") == "OAUTHBEARER":
        client["sasl.oauthbearer.method"] = "oidc"
    client |= written.get("client") or {}
    registry = without_notes(written.get("registry") or {})
    if not is_pem(registry.get("ca", PEM_BEGIN)):
        registry["ca"] = PemFile(registry["ca"])
    prefix = written.get("prefix", "")
    return KafkaCluster(written["bootstrap_servers"], client, prefix, SchemaRegistry(**registry) if registry else None)


def _duration(text: str) -> int:
    """The milliseconds of a duration, as a `DurationFromEnvironment` if it comes from the environment."""
    milliseconds = parse_duration(text)
    return DurationFromEnvironment(milliseconds, text) if isinstance(text, FromEnvironment) else milliseconds
