"""`key_by`: new key columns, of a stream or of a table that is about to be aggregated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...runtime.operators.declarations import Project
from ..language.expressions import Expression
from .base.edge import columns_read
from .base.operation import (
    Description,
    EitherOperation,
    Engine,
    Processor,
    TableUse,
    columns_text,
    is_pure,
    may_fail,
)
from .base.shape import Shape
from .base.site import PythonLayout, Site, SqlLayout, SqlStep


@dataclass(frozen=True)
class Rekeying(EitherOperation):
    """New key columns."""

    columns: Mapping[str, Expression]

    has_effect = False
    null_keys = "passed"

    def engine(self, needed: frozenset[str]) -> Engine:
        """Columns that are there already need no SQL."""
        return "either" if is_pure(self.columns) else "sql"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """What is read on, and what the key reads."""
        return output | columns_read(self.columns.values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes go on, to be regrouped."""
        return TableUse(may_fail=may_fail(self.columns.values(), shape, positive), positive=positive)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-SELECT" if of_table else "KSTREAM-KEY-SELECT"
        return Description(f"key_by {columns_text(self.columns)}", (Processor(role),))

    def in_python(self, site: Site) -> PythonLayout:
        edge = site.input
        key = {name: edge.physical(e.refs[0]) for name, e in self.columns.items()}
        return PythonLayout((Project(edge.name, key=key, at=site.at),), (replace(edge, shape=site.output.shape),))

    def in_sql(self, site: Site) -> SqlLayout:
        edge = site.input
        value = tuple(name for name in edge.value if name in site.output.needed)
        out = replace(edge, shape=site.output.shape, value=value)
        key = {out.physical_key[name]: expression.render(edge.sql) for name, expression in self.columns.items()}
        step = SqlStep("key_by", site.flow, key=key, keep=value, table=edge.shape.is_table, at=site.at)
        return SqlLayout((step,), (out,))
