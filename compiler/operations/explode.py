"""`explode`: one row for each element of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..language.expressions import Expression
from .base.edge import columns_read
from .base.operation import EVERY_CHANGE, Description, Processor, SqlOperation, TableUse
from .base.shape import Shape
from .base.site import Site, SqlLayout, SqlStep


@dataclass(frozen=True)
class Explosion(SqlOperation):
    """One row for each element of an array; the other value columns stay."""

    column: str
    array: Expression

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """What is read on, and what the array reads."""
        return (output - {self.column}) | columns_read([self.array])

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """It is for streams."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return Description(f"explode {self.array.sql.text}", (Processor("KSTREAM-FLATMAPVALUES"),))

    def in_sql(self, site: Site) -> SqlLayout:
        edge = site.input
        others = [name for name in edge.value if name in site.output.needed and name != self.column]
        out = replace(edge, shape=site.output.shape, value=(*others, self.column))
        keep, key = edge.kept(out, others)
        columns = {self.column: self.array.render(edge.sql)}
        step = SqlStep("explode", site.flow, columns=columns, key=key, keep=keep, at=site.at)
        return SqlLayout((step,), (out,))
