"""`to_stream`: turns each change of a table into a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...runtime.operators import declarations
from ..language.reader import Reader
from ..reading.nodes import Node
from .base.context import FlowContext
from .base.edge import NOW
from .base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from .base.shape import Shape
from .base.site import PythonLayout, Site
from .base.step import References, Refusal, Step, StepAction


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


@dataclass(frozen=True)
class ToStream(PythonOperation):
    """Turns a table's changes into records."""

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later."""
        return output - {NOW}

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Each change becomes a record."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return Description("to_stream", (Processor("KTABLE-TOSTREAM"),))

    def in_python(self, site: Site) -> PythonLayout:
        return PythonLayout((declarations.ToStream(site.input.name, site.at),), (site.onward,))
