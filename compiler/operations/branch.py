"""`branch`: each row goes on in the first flow whose predicate holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..language.expressions import Expression
from .base.edge import columns_read
from .base.operation import EVERY_CHANGE, Description, Processor, SqlOperation, TableUse
from .base.shape import Shape
from .base.site import Site, SqlLayout, SqlStep


@dataclass(frozen=True)
class Branching(SqlOperation):
    """Each row to the first flow whose predicate holds: an output for each of `into`, the flows that somebody reads."""

    cases: tuple[tuple[str, Expression | None], ...]
    into: tuple[str, ...]

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """What is read on, and what the predicates read."""
        return output | columns_read(when for _, when in self.cases if when is not None)

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """It is for streams."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """A node for the branch, and one for each flow."""
        fan = tuple(Processor(f"KSTREAM-BRANCH-{name}") for name in self.into)
        return Description(f"branch {', '.join(self.into)}", (Processor("KSTREAM-BRANCH"),), fan)

    def in_sql(self, site: Site) -> SqlLayout:
        branches = tuple((name, None if when is None else when.render(site.input.sql)) for name, when in self.cases)
        edges, kept = site.copies(self.into)
        step = SqlStep("branch", site.flow, branches=branches, into=self.into, keep=kept, at=site.at)
        return SqlLayout((step,), edges)
