"""The SQL steps of generated code: each takes the pipe's rows and gives them back, one step further.

A pipe is a DataFrame of `_kind`, `_ts`, `_order`, `_meta` and data. It is *flat* when one flow crosses it: then the
data are that flow's columns. It is *tagged* when several do: then each flow is one struct column `@<flow>`, of which
exactly one is not null in a data row. Control rows (`_kind < 0`) pass every step untouched; so no predicate may ever
fold to a constant false, or Spark would drop the stages before it.

Every function names its YAML position with `alias(at)`, which costs nothing at run time and lets the engine find the
step that failed in the analysed plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

META = ("_kind", "_ts", "_order", "_meta")


def where(rows: DataFrame, predicate: str, *, flow: str | None = None, table: bool = False, at: str = "") -> DataFrame:
    """Keep the records for which `predicate` holds; a null counts as false.

    Of a table (`table=True`) a replaced row stays only if it passed, and a new row that does not pass becomes a
    deletion; `Settle` removes those that delete nothing.
    """
    if not table:
        passes = f"_kind < 0 OR ({predicate})"
        if flow is not None:
            passes = f"{_column(flow)} IS NULL OR {passes}"
        return _named(_open(rows, flow).where(passes).select(*_names(rows)), at)
    kept = f"_kind <= 1 OR coalesce(({predicate}), false)"
    fails = f"_kind = 1 AND NOT coalesce(({predicate}), false)"
    if flow is not None:
        kept = f"{_column(flow)} IS NULL OR {kept}"
        fails = f"{_column(flow)} IS NOT NULL AND {fails}"
    opened = _open(rows, flow).where(kept)
    kind = _expr(f"IF({fails}, CAST(0 AS TINYINT), _kind)").alias("_kind")
    return _named(opened.select(kind, *(_quoted(name) for name in rows.columns if name != "_kind")), at)


def select(
    rows: DataFrame, columns: Mapping[str, str], *, keep: Sequence[str], flow: str | None = None, at: str = ""
) -> DataFrame:
    """Replace the value columns by `columns` (name -> SQL). The columns named in `keep` (the key's) stay.

    The value columns of a null value stay null: nothing is evaluated for it.
    """
    return _project(rows, columns, keep, flow, at, guard="_kind > 0")


def with_columns(
    rows: DataFrame, columns: Mapping[str, str], *, keep: Sequence[str], flow: str | None = None, at: str = ""
) -> DataFrame:
    """Add or replace value columns; those named in `keep` stay as they are."""
    return _project(rows, columns, keep, flow, at, guard="_kind > 0")


def key_by(
    rows: DataFrame, columns: Mapping[str, str], *, keep: Sequence[str], flow: str | None = None, at: str = ""
) -> DataFrame:
    """Replace the key columns by `columns` (name -> SQL), evaluated for null values too, as Kafka's mapper is."""
    return _project(rows, columns, keep, flow, at, guard="_kind >= 0")


def explode(
    rows: DataFrame, column: str, elements: str, *, keep: Sequence[str], flow: str | None = None, at: str = ""
) -> DataFrame:
    """One record for each of the array `elements`, in order, as column `column`; none for null or an empty array."""
    passes = "_kind < 0" if flow is None else f"_kind < 0 OR {_column(flow)} IS NULL"
    element = f"explode(IF({passes}, array(NULL), ({elements})))"
    null_value = "_kind = 0" if flow is None else f"_kind = 0 AND {_column(flow)} IS NOT NULL"
    kind = f"IF({null_value}, CAST(1 AS TINYINT), _kind)"
    opened = _open(rows, flow)
    tagged = [] if flow is None else [name for name in rows.columns if name.startswith("@")]
    exploded = opened.select(
        _expr(kind).alias("_kind"),
        *(_quoted(name) for name in META[1:]),
        *(_quoted(name) for name in tagged),
        *(_quoted(name) for name in keep),
        _expr(element).alias(column),
    )
    return _named(exploded if flow is None else _close(exploded, flow, [*keep, column], tagged), at)


def branch(rows: DataFrame, flow: str, cases: Sequence[tuple[str, str | None]], *, at: str = "") -> DataFrame:
    """Hand each record of `flow` to the first flow of `cases` whose predicate holds; a None predicate takes the rest.

    Without such a last case, records that match nothing are gone.
    """
    rows = tag(rows, flow)
    whens = " ".join(f"WHEN {'true' if test is None else test} THEN {number}" for number, (_, test) in enumerate(cases))
    choice = f"IF(_kind < 0 OR {_column(flow)} IS NULL, -2, CASE {whens} ELSE -1 END)"
    others = [name for name in rows.columns if name.startswith("@") and name != f"@{flow}"]
    chosen = _open(rows, flow).select(*(_quoted(name) for name in rows.columns), _expr(choice).alias("_case"))
    chosen = chosen.where("_case <> -1")
    taken = [
        _expr(f"IF(_case = {number}, {_column(flow)}, NULL)").alias(f"@{into}")
        for number, (into, _) in enumerate(cases)
    ]
    return _named(chosen.select(*META, *(_quoted(name) for name in others), *taken), at)


def fork(rows: DataFrame, flow: str, into: Sequence[str]) -> DataFrame:
    """Give each reader of `flow` its own copy of every record, in the order in which the readers are declared."""
    rows = tag(rows, flow)
    copies = ", ".join(str(number) for number in range(len(into)))
    number = f"explode(IF({_column(flow)} IS NULL, array(0), array({copies})))"
    copied = rows.select(*(_quoted(name) for name in rows.columns), _expr(number).alias("_copy"))
    others = [name for name in rows.columns if name.startswith("@") and name != f"@{flow}"]
    taken = [
        _expr(f"IF(_copy = {number}, {_column(flow)}, NULL)").alias(f"@{name}") for number, name in enumerate(into)
    ]
    return copied.select(*META, *(_quoted(name) for name in others), *taken)


def merge(rows: DataFrame, flows: Sequence[str], into: str, *, at: str = "") -> DataFrame:
    """Make one flow of several that have equal columns; records keep the order in which they come."""
    others = [name for name in rows.columns if name.startswith("@") and name[1:] not in flows]
    merged = _expr(f"coalesce({', '.join(_column(flow) for flow in flows)})").alias(f"@{into}")
    return _named(rows.select(*META, *(_quoted(name) for name in others), merged), at)


def tag(rows: DataFrame, flow: str) -> DataFrame:
    """A flat pipe of `flow` as a tagged one; a tagged pipe as it is."""
    if any(name.startswith("@") for name in rows.columns):
        return rows
    data = [name for name in rows.columns if name not in META]
    return rows.select(*META, _expr(f"IF(_kind < 0, NULL, {_struct(data)})").alias(f"@{flow}"))


def _project(
    rows: DataFrame, columns: Mapping[str, str], keep: Sequence[str], flow: str | None, at: str, guard: str
) -> DataFrame:
    if flow is not None:
        guard = f"{guard} AND {_column(flow)} IS NOT NULL"
    computed = [_expr(f"IF({guard}, ({sql}), NULL)").alias(name) for name, sql in columns.items()]
    kept = [_quoted(name) for name in keep if name not in columns]
    opened = _open(rows, flow)
    if flow is None:
        return _named(opened.select(*META, *kept, *computed), at)
    tagged = [name for name in rows.columns if name.startswith("@")]
    projected = opened.select(*META, *(_quoted(name) for name in tagged), *kept, *computed)
    return _named(_close(projected, flow, [*(n for n in keep if n not in columns), *columns], tagged), at)


def _open(rows: DataFrame, flow: str | None) -> DataFrame:
    """The rows with the columns of `flow` beside the structs, so that SQL names them as the user wrote them."""
    if flow is None:
        return rows
    from pyspark.sql import functions

    return rows.select(*_names(rows), functions.col(f"{_column(flow)}.*"))


def _close(rows: DataFrame, flow: str, columns: Sequence[str], tagged: Sequence[str]) -> DataFrame:
    """The columns of `flow` put back into its struct."""
    struct = _expr(f"IF({_column(flow)} IS NULL, NULL, {_struct(columns)})").alias(f"@{flow}")
    return rows.select(*META, *(struct if name == f"@{flow}" else _quoted(name) for name in tagged))


def _struct(columns: Sequence[str]) -> str:
    return "named_struct(" + ", ".join(f"'{name}', {_tick(name)}" for name in columns) + ")"


def _names(rows: DataFrame) -> list[Column]:
    return [_quoted(name) for name in rows.columns]


def _column(flow: str) -> str:
    return _tick(f"@{flow}")


def _tick(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quoted(name: str) -> Column:
    return _expr(_tick(name))


def _expr(sql: str) -> Column:
    from pyspark.sql import functions

    return functions.expr(sql)


def _named(rows: DataFrame, at: str) -> DataFrame:
    return rows.alias(at) if at else rows
