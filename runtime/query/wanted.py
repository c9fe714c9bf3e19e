"""Which rows of a store are asked for, by the columns of their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ...errors import HeadwaterError
from ..records.bad_values import BadValueError
from ..records.texts.json_values import to_json
from ..records.texts.values import from_json, parse_text
from ..topology import Store
from .rows import key_types


class StoreKeyError(HeadwaterError):
    """A key that the store's rows cannot have: `column`."""

    exit_code = 2

    def __init__(self, store: str, column: str, cause: str) -> None:
        super().__init__(f"store {store}, key column {column}: {cause}")
        self.store = store
        self.column = column


def wanted_columns(store: Store, key: Mapping[str, Any]) -> dict[str, Any]:
    """The key columns asked for, in their JSON forms."""
    types = key_types(store)
    wanted = {}
    for column, value in key.items():
        if column not in types:
            raise StoreKeyError(store.name, column, f"there is none; the key has {', '.join(types)}")
        try:
            text = isinstance(value, str) and not pa.types.is_string(types[column])
            array = parse_text(pa.array([value]), types[column]) if text else from_json([value], types[column])
        except BadValueError as error:
            raise StoreKeyError(store.name, column, error.cause) from error
        (wanted[column],) = to_json(array)
    return wanted
