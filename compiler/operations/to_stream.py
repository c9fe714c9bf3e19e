"""`to_stream`: turns each change of a table into a record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from ..entries.reader import Reader
from ..reading.nodes import Node
from .base.context import FlowContext
from .base.shape import Shape
from .base.step import References, Refusal, Step, StepAction
from .parts.tables import ToStream


@dataclass(frozen=True)
class ToStreamStep(StepAction):
    """`to_stream`."""

    passes_tombstones = False

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        return cls()

    def references(self) -> References:
        return References()

    def refusal(self, word: str, shape: Shape) -> Refusal | None:
        if shape.is_table:
            return None
        return Refusal("HW501", f"'{word}' is for tables; this is a stream already.", "Remove it.")

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        return context.add(ToStream(), shape, replace(shape, kind="stream", store=None), step)
