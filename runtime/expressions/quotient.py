"""The node of a division of decimals."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from .functions.decimals import quotient
from .nodes import Node
from .values import Batch, Value, either, of_arguments


@dataclass(frozen=True)
class Quotient:
    """`/` of decimals, which fails where the divisor is 0."""

    left: Node
    right: Node
    data_type: pa.DataType
    may_fail: bool = True

    def of(self, batch: Batch) -> Value:
        """See `Node`. Spark computes the divisor first."""
        right, left = self.right.of(batch), self.left.of(batch)
        found = quotient(left.array(batch.rows), right.array(batch.rows), self.data_type)
        return Value(found.data, either(of_arguments([right, left], batch.rows), found.failed))
