"""A step in Spark SQL as data: the compiler makes these, and so do the methods of a `Pipe`. No Arrow, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..ir.declarations import Place

SqlKind = Literal["where", "select", "with_columns", "explode", "branch", "fork", "merge", "key_by"]


@dataclass(frozen=True)
class SqlStep:
    """One step in Spark SQL, named as in the YAML. `flows`: the edges that it reads, several in a merge.

    | kind | fields |
    |---|---|
    | where | `condition`; `table`: the edge holds changes of a table |
    | select | `columns`: new value columns, beside those of `keep`; `null_values`: computed for null values too |
    | with_columns | the same, beside all that are there |
    | key_by | `columns`: the new key columns |
    | explode | `columns`: the one new value column, of an array |
    | branch | `branches`: edge -> condition, None for the rest; in order |
    | fork | `into` |
    | merge | `flows` -> the only name of `into` |

    `columns`: name -> SQL; `types`: their Spark SQL types. `keep`: the value columns that pass unchanged, None for all
    that are not replaced; of each edge behind a branch, fork or merge. SQL is as the user wrote it, but for qualifiers:
    it reads physical names (`ir/declarations.py`), `_ts` (row time, ms) and `_now`.
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
        """The edge that it reads, or the first."""
        return self.flows[0]

    @property
    def makes(self) -> tuple[str, ...]:
        """The edges behind it."""
        return self.into or tuple(self.branches) or self.flows
