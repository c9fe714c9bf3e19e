"""Which stages of a subtopology look at each record alone.

Behind an operator with a store, what becomes of a record also depends on those before it: so whether a step fails for
it may be their fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..operators.declarations import Flow, Process
from ..operators.node import Node
from ..topology import Subtopology
from .sql_step import SqlStep


def stateless_stages(part: Subtopology) -> list[bool]:
    """For each Python stage, in their order, whether neither it nor one before it has a store."""
    stages = _Stages()
    part.build(None, stages)
    return [not any(stages.stores[: number + 1]) for number in range(len(stages.stores))]


@dataclass
class _Stages:
    """An Engine that does nothing but to look at the operators."""

    stores: list[bool] = field(default_factory=list)

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """No step: failing records are looked for in the stages that Spark SQL lies between."""
        return False

    def process(
        self,
        rows: Any,
        nodes: tuple[Node, ...],
        reads: Mapping[str, Flow],  # noqa: ARG002
        yields: Mapping[str, Flow],  # noqa: ARG002
    ) -> Any:
        """Note whether an operator has a store."""
        self.stores.append(any(map(keeps, nodes)))
        return rows

    def sql(self, rows: Any, step: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """A step in SQL has no store."""
        return rows


def keeps(node: Any) -> bool:
    """Whether an operator keeps something from one record to the next. What a processor remembers may be no store."""
    has_store = getattr(node, "store", None) is not None or bool(getattr(node, "stores", ()))
    return has_store or isinstance(node, Process)
