"""The hidden state of aggregates on its way from the operator that computes it to the one that stores it.

Where expressions over aggregates follow an aggregate, `Materialize` stores both. Until then the state of a row travels
with its last change, encoded, in `Rows.state`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from ..records.arrays import Int64s
from ..state.codec import RowCodec
from ..topology import Store
from .keyed.stored_rows import hidden_columns, stored_columns
from .rows import Rows

STATE = "_state"
"""The column with encoded hidden state on its way to `Rows.state`."""


def travels(store: Store) -> bool:
    """Whether expressions over aggregates follow, so that `Materialize` writes the store."""
    return len(stored_columns(store)) > len(hidden_columns(store))


def encoded_state(store: Store, states: Mapping[str, pa.Array], timestamps: Int64s) -> pa.Array:
    """The states as bytes."""
    types = hidden_columns(store)
    return pa.array(RowCodec(types).encode([states[name] for name in types], timestamps), pa.binary())


def decoded_state(store: Store, encoded: Sequence[bytes | None]) -> dict[str, pa.Array]:
    """The states that were encoded; null where there is none."""
    codec = RowCodec(hidden_columns(store))
    return dict(zip(codec.types, codec.decode(encoded)[0], strict=True))


def hide_state(rows: Rows) -> Rows:
    """Move encoded state out of the columns, as SQL does not need it."""
    values = rows.values
    if STATE not in values:
        return rows
    state = values.pop(STATE)
    return replace(rows.with_columns(None, values), state=state)
