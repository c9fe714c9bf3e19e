"""Keys of a processor's store: taken from what a function gives, as bytes, and made objects again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ....python_functions.objects import Row, RowType
from ....python_functions.results import normal, taken
from ....python_functions.values import UnfitValueError
from ....records.keys.encoding import ESCAPE, encode_keys
from ...keyed.codes import bytes_of
from ..columns import Columns, column_of
from .single_rows import SingleKeys


class StoreKeys:
    """Keys with the columns `types` (name -> type). `store`: its name, for people.

    What is given is a mapping by column, or an object with these attributes; otherwise UnfitValueError is raised.
    """

    def __init__(self, store: str, types: Mapping[str, pa.DataType]) -> None:
        self._store = store
        self._type = RowType(types)
        self._single = SingleKeys(types)
        self._normal = {name: normal(kind) for name, kind in types.items()}
        self._hashable = not any(pa.types.is_nested(kind) for kind in types.values())
        # A float may be 0.0 and -0.0, which are one key.
        self._exact = self._hashable and not any(pa.types.is_floating(kind) for kind in types.values())
        self._known: dict[Row, bytes] = {}
        self._given: dict[bytes, Row] = {}

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The types of the columns."""
        return self._type.columns

    def encoded(self, key: Any) -> bytes:
        """The bytes of a key, which is not null."""
        if key is None:
            raise UnfitValueError(f"a key of the store {self._store!r} cannot be null")
        try:
            row = self._type.of(key)
        except UnfitValueError as error:
            raise UnfitValueError(f"a key of the store {self._store!r}: {error.cause}") from None
        if self._hashable and (known := self._known.get(row)) is not None:
            return known
        values = tuple(row)
        if not any(value is not None for value in values):
            raise UnfitValueError(f"a key of the store {self._store!r} cannot be null")
        encoded = self._single.encode(values)
        if self._hashable:  # a key is mostly asked for again: to change its row, or with the next records
            self._known[row] = encoded
        if self._exact:
            self._given[encoded] = row
        return encoded

    def encoded_prefix(self, prefix: Any) -> bytes:
        """The bytes with which all keys begin that have these first columns."""
        names = list(self._type.columns)
        given = names[: len(prefix)] if isinstance(prefix, Mapping) else [n for n in names if hasattr(prefix, n)]
        if not given or given != names[: len(given)]:
            raise UnfitValueError(f"a prefix of keys of the store {self._store!r} has its first columns: {names}")
        found = zip(given, taken(prefix, given), strict=True)
        return self._single.encode([None if value is None else self._normal[name](value) for name, value in found])

    def encoded_many(self, rows: Columns) -> list[bytes]:
        """The bytes of keys that are given by their columns."""
        keys = encode_keys([column_of(rows, name, kind, self._store) for name, kind in self._type.columns.items()])
        if keys.null_count:
            raise UnfitValueError(f"a key of the store {self._store!r} cannot be null")
        return bytes_of(keys)

    def decoded(self, keys: Sequence[bytes]) -> list[Row]:
        """The keys of bytes."""
        unknown = [key for key in keys if key not in self._given]
        read = dict(zip(unknown, self._single.decode(unknown), strict=True)) if unknown else {}
        return [self._given[key] if key in self._given else self._type.made(read[key]) for key in keys]


def behind(key: bytes) -> bytes:
    """Less than all keys behind an encoded key or its first columns, and greater than what begins with these.

    What follows a column is the marker of the next one, or a time; only in a longer text is it this byte.
    """
    return key + bytes([ESCAPE])
