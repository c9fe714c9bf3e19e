"""Reads what several kinds of entries share: `emit`, and names of columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...runtime.operators.declarations import Emit
from ..diagnostics import Diagnostics
from ..reading.nodes import Mapping, Scalar
from ..types import canonical
from .models import Column
from .node_values import scalar

Pairs = tuple[tuple[Scalar, Scalar], ...]
"""Names, each with an expression."""

_RESERVED = frozenset({"_key", "_timestamp", "_offset", "_partition", "_headers", "window_start", "window_end"})
_OF_THE_PIPE = frozenset({"_kind", "_ts", "_order", "_meta", "_now"})


@dataclass(frozen=True)
class Reader:
    """Reads parts of entries, and reports mistakes that a schema cannot find."""

    diagnostics: Diagnostics

    def emit(self, node: Mapping | None) -> Emit:
        """The `emit` of a table: `per_epoch` or `each_update`."""
        emit = scalar(node, "emit")
        return "each_update" if emit is not None and emit.text == "each_update" else "per_epoch"

    def columns(self, pairs: Iterable[tuple[Scalar, Scalar]]) -> Pairs:
        """New columns, each with an expression. Reserved names are reported."""
        columns = tuple(pairs)
        for name, _ in columns:
            self.column_name(name)
        return columns

    def declared(self, section: Mapping | None) -> dict[str, Column]:
        """Columns by name, each with its type. Reserved names, and names that cannot be told apart, are reported."""
        columns: dict[str, Column] = {}
        known: dict[str, str] = {}
        for entry in section.entries if section is not None else ():
            name, type_ = entry.key, entry.node
            self.column_name(name)
            twin = known.setdefault(name.text.casefold(), name.text)
            if twin != name.text:
                message = f"'{name.text}' and '{twin}' are the same column to Spark SQL."
                self.diagnostics.add("HW516", name.position, message)
            try:
                columns[name.text] = Column(name, canonical(type_.text) if isinstance(type_, Scalar) else None)
            except ValueError:
                columns[name.text] = Column(name, None)
        return columns

    def column_name(self, name: Scalar) -> None:
        """Report a column with a reserved name."""
        if name.text in _RESERVED:
            message = f"The column name '{name.text}' is reserved."
        elif name.text in _OF_THE_PIPE or name.text.startswith(("@", "key.")):
            message = f"The column name '{name.text}' is reserved for the rows on their way through a job."
        else:
            return
        self.diagnostics.add("HW508", name.position, message, "Rename the column.")
