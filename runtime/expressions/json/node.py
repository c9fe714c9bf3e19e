"""The node of `from_json`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ..nodes import Node
from ..values import Batch, Value
from .texts import from_json


@dataclass(frozen=True)
class FromJson:
    """Structs of JSON texts. It does not fail by itself: what is no JSON gives a struct of nulls."""

    text: Node
    data_type: pa.StructType

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return self.text.may_fail

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        text = self.text.of(batch)
        return Value(from_json(text.array(batch.rows), self.data_type), text.failed)

    def only(self, name: str) -> FromJson:
        """Structs of one field alone, as Spark's optimizer has it where nothing else of them is read."""
        return FromJson(self.text, pa.struct([self.data_type.field(name)]))
