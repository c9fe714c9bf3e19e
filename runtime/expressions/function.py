"""A node for functions that say themselves for which rows they fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from .nodes import Node
from .values import Batch, Value, either, of_arguments


@dataclass(frozen=True)
class Function:
    """What a function makes of arrays, one of each argument.

    It gives null, and does not fail, where an argument is null. If it does otherwise, no argument may fail. `fails`:
    whether there are rows for which it fails itself. It is sent to tasks, so it is a function of a module, or a
    `partial` of one.
    """

    function: Callable[..., Value]
    arguments: tuple[Node, ...]
    data_type: pa.DataType
    fails: bool = False

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return self.fails or any(each.may_fail for each in self.arguments)

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        values = [each.of(batch) for each in self.arguments]
        found = self.function(*(each.array(batch.rows) for each in values))
        return Value(found.data, either(of_arguments(values, batch.rows), found.failed))
