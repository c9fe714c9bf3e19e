"""The columns of the batches on an edge, by their physical names. They follow from declarations alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..records.schema import key_columns, value_columns
from ..records.types import columns_ddl, parse_columns
from .declarations import Flow, Source


def source_columns(source: Source) -> Flow:
    """The columns that a source puts on its edges."""
    value = value_columns(source.topic)
    if source.columns is not None:
        value = {name: value[name] for name in source.columns}
    return Flow(columns_ddl(key_columns(source.topic)), columns_ddl(value))


def physical_columns(flow: Flow) -> dict[str, pa.DataType]:
    """The columns of a flow's batch: key, then value. A key column with the name of a value column is `key.<name>`."""
    value = parse_columns(flow.value)
    key = parse_columns(flow.key)
    return {physical_key(name, value): data_type for name, data_type in key.items()} | value


def physical_key(name: str, value: dict[str, pa.DataType]) -> str:
    """The physical name of the key column `name` in a batch with the value columns `value`."""
    return f"key.{name}" if name in value else name


def key_name(physical: str, value: Sequence[str]) -> str:
    """A key column's own name, from its physical name in a batch with the value columns `value`."""
    name = physical.removeprefix("key.")
    return name if name in value else physical
