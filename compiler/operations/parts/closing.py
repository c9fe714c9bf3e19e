"""The operation of `emit: on_close`: of a windowed table, each row once, when its window closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....runtime.operators.declarations import FinalResults
from ....runtime.topology import Store
from ..base.edge import NOW
from ..base.operation import EVERY_CHANGE, Description, PythonOperation, TableUse
from ..base.shape import Shape
from ..base.site import PythonLayout, Site


@dataclass(frozen=True)
class Closing(PythonOperation):
    """Turns a windowed table into a stream of its final rows."""

    store: Store

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later."""
        return output - {NOW}

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """It knows by the updates which record closes a window."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """Nothing: it belongs to the aggregation."""
        return Description()

    def in_python(self, site: Site) -> PythonLayout:
        store = site.declared.stores[self.store.name]
        return PythonLayout((FinalResults(site.input.name, store, site.at),), (site.onward,))
