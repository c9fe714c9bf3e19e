"""Nodes of what gives null in place of an error, and of what is read of texts, which tells by a null that it failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from .nodes import Node
from .values import Batch, Value


@dataclass(frozen=True)
class Tried:
    """A value, null where computing it fails. Only its outermost function may fail, not the arguments of that."""

    tried: Node
    may_fail: bool = False

    @property
    def data_type(self) -> pa.DataType:
        """See `Node`."""
        return self.tried.data_type

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        return Value(self.tried.of(batch).data)


@dataclass(frozen=True)
class Parsed:
    """What `kernel` reads of texts. It fails where that is null, but the text is not, which may not fail."""

    kernel: Callable[[pa.Array], pa.Array]
    text: Node
    data_type: pa.DataType
    may_fail: bool = True

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        text = self.text.of(batch)
        data = self.kernel(text.array(batch.rows))
        failed = Value(data).is_null(batch.rows) & ~text.is_null(batch.rows)
        return Value(data, failed if failed.any() else None)
