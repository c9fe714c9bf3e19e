"""`to_table`, and each entry of `tables:`: a stream of upserts becomes a table, the last row of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...runtime.operators.declarations import Table
from ...runtime.topology import Store
from .base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from .base.shape import Shape
from .base.site import PythonLayout, Site


@dataclass(frozen=True)
class Tabling(PythonOperation):
    """A stream of upserts becomes a table. `source`: whether it is an entry of `tables:`."""

    store: Store
    source: bool = False

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A store has all columns."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """It is for streams."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-SOURCE" if self.source else "KSTREAM-TOTABLE"
        return Description("" if self.source else "to_table", (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.output.shape
        site.declared.stores[self.store.name] = self.store
        emit, old = site.changes(frozenset(), True)
        node = Table(edge.name, self.store, emit, old, site.at)
        return PythonLayout((node,), (replace(edge, shape=shape, value=tuple(shape.value)),))
