"""A step in Spark SQL as data, made by the compiler and by the methods of a `Pipe`. No Arrow, no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from ..ir.topology import StepText
from .operators.operator import EdgeColumns, Lineage, Place, column_of, columns_text, fork_texts

SqlKind = Literal["where", "select", "with_columns", "explode", "branch", "fork", "merge", "key_by"]


@dataclass(frozen=True)
class SqlStep:
    """One step in Spark SQL, named as in the YAML. `flows`: its input edges, several only in a merge.

    | kind | fields |
    |---|---|
    | where | `condition`; `table`: whether the edge has changes of a table |
    | select | `columns`: new value columns, in addition to `keep`; `null_values`: also computed for null values |
    | with_columns | the same, in addition to all existing columns |
    | key_by | `columns`: the new key columns |
    | explode | `columns`: the one new value column, of an array |
    | branch | `branches`: edge -> condition, None for the rest; in order |
    | fork | `into`: the output edges |
    | merge | `flows` -> the only name of `into` |

    `columns`: name -> SQL. `types`: name -> Spark SQL type. `keep`: the value columns that pass unchanged, None for all
    that are not replaced. After a branch, fork or merge it applies to each output edge. SQL is as the user wrote it,
    without qualifiers. It uses physical names (`operators/operator.py`), `_ts` (row time, ms) and `_now`.
    """

    kind: SqlKind
    flows: tuple[str, ...]
    condition: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    branches: Mapping[str, str | None] = field(default_factory=dict)
    into: tuple[str, ...] = ()
    keep: tuple[str, ...] | None = None
    table: bool = False
    null_values: bool = False
    at: Place = ""

    @property
    def flow(self) -> str:
        """The input edge, or the first one."""
        return self.flows[0]

    @property
    def reads(self) -> tuple[str, ...]:
        """The input edges."""
        return self.flows

    @property
    def makes(self) -> tuple[str, ...]:
        """The output edges."""
        return self.into or tuple(self.branches) or self.flows

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The columns of the output edges."""
        if self.kind == "where":
            return {self.flow: edges[self.flow]}
        edge = EdgeColumns.merged([edges[name] for name in self.flows])
        kept = {name: edge.value[name] for name in (edge.value if self.keep is None else self.keep)}
        computed = {
            name: column_of(self.types[name], lineage.expression(sql, edge)) for name, sql in self.columns.items()
        }
        if self.kind == "key_by":
            return {self.flow: EdgeColumns(computed, kept)}
        unchanged = {name: column for name, column in kept.items() if name not in computed}
        return dict.fromkeys(self.makes, replace(edge, value={**unchanged, **computed}))

    def texts(self) -> Iterator[StepText]:
        """The step as text, for plans. The SQL is that of the job: as the user wrote it, without qualifiers."""
        if self.kind == "fork":
            yield from fork_texts(self.flow, self.into)
        elif text := self._text:
            yield StepText(self.makes[0] if self.kind == "merge" else self.flow, text, str(self.at))

    @property
    def _text(self) -> str:
        match self.kind:
            case "where":
                return f"filter {self.condition}"
            case "select" | "with_columns" | "explode":
                # Input columns of an aggregation are named like their expressions. The text of its store has them.
                columns = {name: sql for name, sql in self.columns.items() if name != sql}
                return f"{self.kind.replace('_', ' ')} {columns_text(columns)}" if columns else ""
            case "key_by":
                return f"key_by {columns_text(self.columns)}"
            case "branch":
                named = (f"{name}: {'the rest' if sql is None else sql}" for name, sql in self.branches.items())
                return f"branch {', '.join(named)}"
            case "merge":
                return f"merge {', '.join(self.flows)}"
            case "fork":
                return ""
            case unknown:
                assert_never(unknown)
