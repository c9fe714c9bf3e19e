"""The built-in plugins, registered through the hooks that all plugins use. Each is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..plugins import hookimpl
from ..plugins.hookspecs import Register

if TYPE_CHECKING:
    from .log.log import Log


def _options(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of options with these properties and no others."""
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


@hookimpl
def headwater_register_assignors(register: Register) -> None:
    """Register `high_availability`, `sticky`, `fallback`, `balanced` and `balanced_count`."""
    register(
        "high_availability",
        "headwater.runtime.assignment.high_availability:HighAvailability",
        description="Balanced; a task stays where its state is until the client that shall have it has caught up.",
    )
    register(
        "sticky",
        "headwater.runtime.assignment.sticky:Sticky",
        description="As few moves as shares by threads allow, wherever state is.",
    )
    register(
        "fallback",
        "headwater.runtime.assignment.fallback:Fallback",
        description="Every task stays where it was: for when nobody knows how far copies are behind.",
    )
    register(
        "balanced",
        "headwater.runtime.assignment.balanced.assignor:Balanced",
        _options(
            restore_bytes_per_second={
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "How fast one client restores; default 50,000,000.",
            },
            movement_weight={
                "type": "number",
                "minimum": 0,
                "description": "What a second of moving state counts against one of waiting for tasks; default 0.1.",
            },
            allowed_imbalance={
                "type": "number",
                "minimum": 0,
                "description": "Part of its share by which a client's load may differ from it; default 0.1.",
            },
            cross_rack_seconds={
                "type": "number",
                "minimum": 0,
                "description": "Seconds that it is worth not to read a partition from another rack; default 1.",
            },
        ),
        "Soonest all running again and least state moved, by the measured rates and sizes of tasks.",
    )
    register(
        "balanced_count",
        "headwater.runtime.assignment.balanced.count:BalancedCount",
        description="As many tasks for each thread, and a task stays where it was as long as that allows.",
    )


@hookimpl
def headwater_register_restore_strategies(register: Register) -> None:
    """Register `changelog`."""
    register(
        "changelog",
        "headwater.runtime.restore.changelog:ChangelogRestore",
        _options(slice_records={"type": "integer", "minimum": 1, "description": "Records applied in one step, about."}),
        "Replays the changelog from where the store stands.",
    )


@hookimpl
def headwater_register_store_backends(register: Register) -> None:
    """Register `lmdb` and `memory`."""
    register(
        "lmdb",
        "headwater.runtime.state.lmdb.store:LmdbBackend",
        _options(map_size={"type": "integer", "minimum": 65536, "description": "Bytes to begin with; it grows."}),
        "Files in the state directory, transactional; they outlive clients and machines.",
    )
    register(
        "memory",
        "headwater.runtime.state.memory:MemoryBackend",
        _options(path={"type": "string", "description": "Where; default /dev/shm, or the temporary directory."}),
        "Memory, where the machine has a file system for it; restored after a restart of the machine.",
    )


@hookimpl
def headwater_register_logs(register: Register) -> None:
    """Register `embedded`."""
    register(
        "embedded",
        _embedded_log,
        _options(
            ("path",),
            path={"type": "string", "description": "The folder of the log."},
            grace_ms={"type": "integer", "minimum": 0, "description": "How long replaced files stay, in ms."},
        ),
        "Files below one folder of a local file system: no server.",
    )


def _embedded_log(path: str, **_: Any) -> Log:
    """The log itself needs only its place; `grace_ms` is for whoever removes files that commits have replaced."""
    from .log.embedded.log import EmbeddedLog

    return EmbeddedLog(path)
