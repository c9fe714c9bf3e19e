"""Operations between streams and tables: upserts to tables, changes to records, and settled changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....runtime.engine.operators import stateless
from ....runtime.engine.operators.foreign_keys import Forget
from ....runtime.engine.operators.stateless import Settle
from ....runtime.engine.operators.tables import Materialize, Table
from ....runtime.ir.topology import Store
from ....runtime.ir.windows import SessionWindow
from ...entries import declared_store
from ..base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from ..base.site import NOW, PythonLayout, Shape, Site

RESULT = "-result"
"""The ending of the name of the store of a flow's result, if a step already has a store with the flow's name."""


@dataclass(frozen=True)
class ToTable(PythonOperation):
    """Turns a stream of upserts into a table.

    `source`: it is an entry of `tables:`. `role`: its name in `describe`, if it is part of another step. `forgets`: the
    edge with the keys of rows that leave the store without a change, or "".
    """

    store: Store
    source: bool = False
    role: str = ""
    forgets: str = ""

    has_effect = True
    null_keys = "dropped"

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-SOURCE" if self.source else self.role or "KSTREAM-TOTABLE"
        text = "" if self.source or self.role else "to_table"
        return Description(text, (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        site.declare(self.store)
        emit, old = site.changes(frozenset(), True)
        node = Table(site.input.name, self.store, emit, old, site.at)
        forget = (Forget(self.forgets, self.store, site.at),) if self.forgets else ()
        return PythonLayout((node, *forget), (site.whole,))


@dataclass(frozen=True)
class ToStream(PythonOperation):
    """Turns a table's changes into records."""

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later."""
        return output - {NOW}

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return Description("to_stream", (Processor("KTABLE-TOSTREAM"),))

    def in_python(self, site: Site) -> PythonLayout:
        return PythonLayout((stateless.ToStream(site.input.name, site.at),), (site.onward,))


def rows_store(name: str, shape: Shape) -> Store:
    """A store for the rows of a table without one, with the windows and the retention of the rows."""
    windows = shape.windows
    if windows is None:
        return declared_store(name, None, "key_value", shape.key, shape.value, shape.partitions)
    type_ = "session" if isinstance(windows.window, SessionWindow) else "window"
    store = declared_store(name, None, type_, shape.plain_key, shape.value, shape.partitions)
    longer = windows.kept_ms if windows.kept_ms > windows.window.kept_ms else None
    return replace(store, window=windows.window, retention_ms=longer)


@dataclass(frozen=True)
class TableMaterialization(PythonOperation):
    """Materializes a table without a store, because a join looks up its rows."""

    store: Store

    has_effect = True
    null_keys = "dropped"

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Each change becomes a row of the store. Changes of a windowed table are passed on unchanged."""
        return TableUse(positive=positive) if self.store.is_windowed else EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """A store of the step before, as Kafka Streams shows a materialized table."""
        return Description(keeps=(self.store.name,))

    def in_python(self, site: Site) -> PythonLayout:
        edge = site.input.name
        site.declare(self.store)
        if self.store.is_windowed:
            return PythonLayout((Materialize(edge, self.store, site.at),), (site.whole,))
        emit, old = site.changes(frozenset(), True)
        nodes = (stateless.ToStream(edge, site.at), Table(edge, self.store, emit, old, site.at))
        return PythonLayout(nodes, (site.whole,))


@dataclass(frozen=True)
class Settling(PythonOperation):
    """Removes deletions of rows that did not exist. `alone`: it is not part of a filter of a table."""

    alone: bool = False

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later."""
        return output - {NOW}

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All other changes are passed on."""
        return TableUse(filters=self.alone, positive=positive)

    def in_python(self, site: Site) -> PythonLayout:
        return PythonLayout((Settle(site.input.name, site.at),), (site.onward,))
