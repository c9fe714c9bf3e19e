"""The hash of a row's values: an answer is for the row that has asked, and the row may be another one by then."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from ....records.types import parse_columns
from ....state.codec import RowCodec
from ....topology import Store

_BYTES = 16
_TIME = 8
"""A stored row begins with its timestamp, which the hash leaves out."""


def row_hashes(store: Store, columns: Mapping[str, pa.Array], rows: int) -> list[bytes]:
    """The hash of each row of a table. `store`: the table's, which says the order of its value columns."""
    types = parse_columns(store.value)
    typed = [columns[name].cast(kind) if columns[name].type != kind else columns[name] for name, kind in types.items()]
    encoded = RowCodec(types).encode(typed, np.zeros(rows, np.int64))
    return [blake2b(row[_TIME:], digest_size=_BYTES).digest() for row in encoded]
