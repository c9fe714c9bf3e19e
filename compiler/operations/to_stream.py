"""`to_stream`: each change of a table becomes a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...runtime.operators.declarations import ToStream
from .base.edge import NOW
from .base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from .base.shape import Shape
from .base.site import PythonLayout, Site


@dataclass(frozen=True)
class Streaming(PythonOperation):
    """A table's changes become records."""

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """What is read on."""
        return output - {NOW}

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Each is a record of its own."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return Description("to_stream", (Processor("KTABLE-TOSTREAM"),))

    def in_python(self, site: Site) -> PythonLayout:
        return PythonLayout((ToStream(site.input.name, site.at),), (replace(site.input, shape=site.output.shape),))
