"""`repartition`: sends a stream through a repartition topic, with the same or another number of partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from ..entries import Reader, integer
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import FlowContext, Step, StepAction
from .base.site import Rekey, Shape


@dataclass(frozen=True)
class RepartitionStep(StepAction):
    """`repartition:`, with an optional number of partitions. Its operation is `base.context.Repartition`."""

    partitions: int | None

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if isinstance(node, MappingNode):
            return cls(integer(node, "partitions", None))
        return cls(None) if isinstance(node, ScalarNode) and node.value is None and not node.broken else None

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Add a repartition topic, whether the key has changed or not."""
        if shape.open or not context.has_key(step, shape):
            return replace(shape, rekey=None)
        own = step.name.text if step.name else None
        cause = shape.rekey if shape.rekey and shape.rekey.flow == context.name.text and own is None else None
        rekey = cause or Rekey(context.name.text, own, step.word.position)
        return context.repartition(shape, step, rekey, self.partitions or shape.partitions)
