"""Declarations of stores for the runtime, made from `stores:` and the step that uses one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from ...runtime.topology import Store, StoreType
from ..diagnostics import Diagnostics
from ..types import ddl
from .models import StoreModel

UNKNOWN_TYPE = "string"
"""Stands for an unknown type. Nothing is generated from a project that has one."""


def columns_ddl(columns: Mapping[str, str | None]) -> str:
    """Columns as Spark SQL DDL."""
    return ddl({name: type_ or UNKNOWN_TYPE for name, type_ in columns.items()})


def check_no_processors(model: StoreModel, type_: str, diagnostics: Diagnostics) -> None:
    """Report what only a store of processors says. `type_`: of the store that another step needs."""
    if type_ == "key_value" and model.retention is not None:
        message = "A key_value store keeps each row until it is deleted; only of processors it has a 'retention'."
        diagnostics.add("HW210", model.retention.position, message, "Remove it.")
    if model.key is not None or model.value is not None:
        message = f"'{model.name.text}' says its columns, and is no store of a processor: its step decides them."
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
