"""The lookups of a `join`: in a table by the key, or in a global table by any expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import GlobalJoin, How, StreamTableJoin
from ....runtime.topology import GlobalTable
from ...language.expressions import Expression
from ..base.edge import NOW, LiveEdge, argument_columns
from ..base.operation import (
    EVERY_CHANGE,
    Description,
    Lookup,
    NullKeys,
    Processor,
    PythonOperation,
    TableUse,
    store_names,
)
from ..base.shape import Shape
from ..base.site import PythonLayout, Site


@dataclass(frozen=True)
class TableJoin(Lookup):
    """Looks up the key in a table. `values`: new column -> column of the table.

    Besides, it looks at the stored tables that its table is made of, if it must be told when they change.
    """

    table: str
    how: How
    values: Mapping[str, str]

    has_effect = False
    triggered = False

    @property
    def null_keys(self) -> NullKeys:
        return "kept" if self.how == "left" else "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later that do not come from the table."""
        return output - self.values.keys() - {NOW}

    def looks_at(self) -> str:
        return self.table

    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        """The table's columns that are read later."""
        return frozenset(_wanted(self.values, output).values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Each record needs the table as it was at that record."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return _description(self.how, self.table, store_names(lookups))

    def in_python(self, site: Site) -> PythonLayout:
        edge, (table, *stored) = site.input, site.lookups
        assert table.shape.store is not None, f"{self.table} has been given a store"
        store = site.declared.stores[table.shape.store.name]
        values = _wanted(self.values, site.output.needed)
        node = StreamTableJoin(
            edge.name, table.name, store, self.how, values, tuple(each.name for each in stored), site.at
        )
        return PythonLayout((node,), (_with_values(site, values),))


@dataclass(frozen=True)
class GlobalTableJoin(PythonOperation):
    """Looks up rows in a global table. `by`: key column of the table -> expression over the flow's columns."""

    table: GlobalTable
    how: How
    by: Mapping[str, Expression]
    values: Mapping[str, str]

    has_effect = False

    @property
    def null_keys(self) -> NullKeys:
        """An inner join drops records without a match.

        It looks up other columns than the key, so the key may be null.
        """
        return "kept" if self.how == "left" else "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later that do not come from the table, and those that are looked up."""
        return (output - self.values.keys() - {NOW}) | argument_columns(self.by.values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Its input is never a table."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return _description(self.how, self.table.name, ())

    def in_python(self, site: Site) -> PythonLayout:
        edge = site.input
        site.declared.stores.setdefault(self.table.store.name, self.table.store)
        by = {name: edge.physical(e.as_column) for name, e in self.by.items()}
        values = _wanted(self.values, site.output.needed)
        node = GlobalJoin(edge.name, self.table, self.how, by, values, site.at)
        return PythonLayout((node,), (_with_values(site, values),))


def _description(how: How, table: str, stores: tuple[str, ...]) -> Description:
    role = "KSTREAM-LEFTJOIN" if how == "left" else "KSTREAM-JOIN"
    return Description(f"{how} join {table}", (Processor(role, stores=stores),))


def _wanted(values: Mapping[str, str], needed: frozenset[str]) -> dict[str, str]:
    return {new: old for new, old in values.items() if new in needed}


def _with_values(site: Site, values: Mapping[str, str]) -> LiveEdge:
    """The edge with the columns that the join adds or replaces."""
    edge = site.input
    value = (*edge.value, *(name for name in values if name not in edge.value))
    return replace(edge, shape=site.output.shape, value=value)
