"""The SQL steps of generated code, as Spark computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...engine import pipe
from ...engine.pipe import NUMBER
from ...records.names import backticked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def checked_text(column: Column, data_type: DataType) -> Column:
    """The column with an error for every string that is not UTF-8, at any depth. Nulls and maps are not preserved."""
    from pyspark.sql import functions, types

    match data_type:
        case types.StringType():
            return functions.validate_utf8(column)
        case types.StructType(fields=fields):
            parts = (checked_text(column.getField(field.name), field.dataType) for field in fields)
            return functions.struct(*(part.alias(f"_{number}") for number, part in enumerate(parts)))
        case types.ArrayType(elementType=element):
            return functions.transform(column, lambda item: checked_text(item, element))
        case types.MapType(keyType=key, valueType=item):
            keys = checked_text(functions.map_keys(column), types.ArrayType(key))
            return functions.struct(keys, checked_text(functions.map_values(column), types.ArrayType(item)))
    return column


def normal_floats(column: Column, data_type: DataType) -> Column:
    """The column with 0.0 for -0.0, as in `records.keys.normal_key`, so that equal floats are identical. Other types
    are unchanged.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, StructType

    if isinstance(data_type, FloatType | DoubleType):
        # In IEEE 754, -0.0 + 0.0 is 0.0, and every other value stays.
        return column + functions.lit(0).cast(data_type)
    if isinstance(data_type, ArrayType) and _holds_floats(data_type):
        return functions.transform(column, lambda item: normal_floats(item, data_type.elementType))
    if isinstance(data_type, StructType) and _holds_floats(data_type):
        fields = [normal_floats(column.getField(field.name), field.dataType).alias(field.name) for field in data_type]
        return functions.when(column.isNotNull(), functions.struct(*fields))
    return column


def _holds_floats(data_type: DataType) -> bool:
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, StructType

    if isinstance(data_type, ArrayType):
        return _holds_floats(data_type.elementType)
    if isinstance(data_type, StructType):
        return any(_holds_floats(field.dataType) for field in data_type)
    return isinstance(data_type, FloatType | DoubleType)


# A step takes the rows of a pipe and returns them.
#
# A pipe is a DataFrame with `_kind`, `_ts`, `_order`, `_meta` and data. It is *flat* if it has one flow: the data are
# the columns of the flow. It is *tagged* if it has several: a flow is one struct column `@<flow>`, and in a data row
# exactly one of these is not null. Control rows (`_kind < 0`) pass every step unchanged. So no predicate may fold to a
# constant false, because Spark would then drop the stages before it.
#
# `flow`: the edge of a step, omitted while the pipe is flat. `keep`: the columns that pass unchanged (None: all that
# are not replaced). `at`: `file:line` of the step, with which it aliases the result. This costs nothing at run time,
# and identifies a failed step in the analyzed plan.

META = tuple(name for name, _ in pipe.META)
"""The names of the first columns of every pipe."""

_ONLY = ""
"""The name of the flow of a flat pipe while a step needs it tagged."""


def where(rows: DataFrame, condition: str, *, flow: str | None = None, table: bool = False, at: str = "") -> DataFrame:
    """Keep the records for which `condition` is true. Null counts as false.

    On a table, a replaced row stays only if it passed, and a new row that does not pass becomes a deletion. `Settle`
    removes deletions of rows that did not exist.
    """
    mine, other = _guards(flow)
    opened = _open(rows, flow)
    if not table:
        return _named(opened.where(f"{other}_kind < 0 OR ({condition})").select(*_columns(rows)), at)
    passes = f"coalesce(({condition}), false)"
    kind = _expr(f"IF({mine}_kind = 1 AND NOT {passes}, CAST(0 AS TINYINT), _kind)").alias("_kind")
    kept = opened.where(f"{other}_kind <= 1 OR {passes}")
    return _named(kept.select(kind, *(_column(name) for name in rows.columns if name != "_kind")), at)


def select(
    rows: DataFrame,
    columns: Mapping[str, str],
    *,
    keep: Sequence[str] | None = None,
    key: Mapping[str, str] | None = None,
    null_values: bool = False,
    flow: str | None = None,
    at: str = "",
) -> DataFrame:
    """Compute value columns (name -> SQL). Of the other columns only `keep` and `key` (new -> old name) stay.

    Nothing is evaluated for a null value, which stays null. With `null_values` it is evaluated with null columns.
    """
    computed = _computed(columns, flow, "_kind >= 0" if null_values else "_kind > 0")
    return _projected(rows, dict(zip(columns, computed, strict=True)), keep, key, flow, at)


with_columns = select
"""The same projection. The compiler keeps the other value columns."""


def key_by(
    rows: DataFrame,
    key: Mapping[str, str],
    *,
    keep: Sequence[str] | None = None,
    flow: str | None = None,
    at: str = "",
) -> DataFrame:
    """Compute the new key columns (name -> SQL), for null values too, for which Kafka also calls its mapper.

    Equal keys become identical: -0.0 becomes 0.0.
    """
    computed = _computed(key, flow, "_kind >= 0")
    fields = _open(rows, flow).select(*computed).schema.fields
    normal = [
        normal_floats(column, field.dataType).alias(field.name) for column, field in zip(computed, fields, strict=True)
    ]
    return _projected(rows, dict(zip(key, normal, strict=True)), keep, None, flow, at)


def explode(
    rows: DataFrame,
    columns: Mapping[str, str],
    *,
    keep: Sequence[str] | None = None,
    key: Mapping[str, str] | None = None,
    flow: str | None = None,
    at: str = "",
) -> DataFrame:
    """One record per element of an array (`columns`: new column -> SQL), in order.

    Null and empty arrays give no record.
    """
    (column, elements) = next(iter(columns.items()))
    mine, other = _guards(flow)
    element = _expr(f"explode(IF({other}_kind < 0, array(NULL), ({elements})))").alias(column)
    kind = _expr(f"IF({mine}_kind = 0, CAST(1 AS TINYINT), _kind)").alias("_kind")
    kept, renamed = _kept(rows, columns, keep, key, flow)
    tagged = [_column(name) for name in _tags(rows)]
    exploded = _open(rows, flow).select(kind, *_meta(rows)[1:], *tagged, *kept.values(), *renamed.values(), element)
    return _named(_close(exploded, flow, [*kept, *renamed, column], _tags(rows)), at)


def branch(
    rows: DataFrame,
    branches: Sequence[tuple[str, str | None]],
    *,
    into: Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    flow: str | None = None,
    at: str = "",
) -> DataFrame:
    """Send a record to the first of `branches` (edge, condition) with a true condition; None is always true.

    Records without a match are dropped, and so are those of branches outside of `into`, which have no readers.
    """
    rows, flow = _tagged(rows, flow)
    read = [name for name, _ in branches] if into is None else list(into)
    cases = " ".join(
        f"WHEN {'true' if condition is None else f'({condition})'} THEN {read.index(name) if name in read else -1}"
        for name, condition in branches
    )
    choice = f"IF(_kind < 0 OR {_tag(flow)} IS NULL, -2, CASE {cases} ELSE -1 END)"
    chosen = _open(rows, flow).select(*_columns(rows), _expr(choice).alias("_case")).where("_case <> -1")
    taken = [_expr(f"IF(_case = {n}, {_trimmed(flow, keep)}, NULL)").alias(f"@{name}") for n, name in enumerate(read)]
    return _named(_flattened(chosen.select(*_meta(rows), *_others(rows, [flow]), *taken)), at)


def fork(
    rows: DataFrame, into: Sequence[str], *, keep: Sequence[str] | None = None, flow: str | None = None, at: str = ""
) -> DataFrame:
    """Give all readers their own copies of every record, in the order of `into`."""
    rows, flow = _tagged(rows, flow)
    copies = ", ".join(str(number) for number in range(len(into)))
    copy = _expr(f"explode(IF({_tag(flow)} IS NULL, array(0), array({copies})))").alias("_copy")
    copied = rows.select(*_columns(rows), copy)
    taken = [_expr(f"IF(_copy = {n}, {_trimmed(flow, keep)}, NULL)").alias(f"@{name}") for n, name in enumerate(into)]
    return _named(_flattened(copied.select(*_meta(rows), *_others(rows, [flow]), *taken)), at)


def merge(
    rows: DataFrame, flows: Sequence[str], into: str, *, keep: Sequence[str] | None = None, at: str = ""
) -> DataFrame:
    """Merge several flows with equal columns into one. Records keep their order."""
    merged = _expr(f"coalesce({', '.join(_trimmed(flow, keep) for flow in flows)})").alias(f"@{into}")
    return _named(_flattened(rows.select(*_meta(rows), *_others(rows, flows), merged)), at)


def ordered(rows: DataFrame, flows: Mapping[str, Sequence[str]]) -> DataFrame:
    """The rows with exactly these flows and columns in this order, as the next stage expects them."""
    if len(flows) == 1:
        (columns,) = flows.values()
        return rows.select(*_meta(rows), *(_column(name) for name in columns))
    tagged = (_expr(_trimmed(flow, columns)).alias(f"@{flow}") for flow, columns in flows.items())
    return rows.select(*_meta(rows), *tagged)


def _computed(columns: Mapping[str, str], flow: str | None, guard: str) -> list[Column]:
    mine, _ = _guards(flow)
    return [_expr(f"IF({mine}{guard}, ({sql}), NULL)").alias(name) for name, sql in columns.items()]


def _projected(
    rows: DataFrame,
    computed: Mapping[str, Column],
    keep: Sequence[str] | None,
    key: Mapping[str, str] | None,
    flow: str | None,
    at: str,
) -> DataFrame:
    kept, renamed = _kept(rows, computed, keep, key, flow)
    tagged = [_column(name) for name in _tags(rows)]
    projected = _open(rows, flow).select(*_meta(rows), *tagged, *kept.values(), *renamed.values(), *computed.values())
    return _named(_close(projected, flow, [*kept, *renamed, *computed], _tags(rows)), at)


def _kept(
    rows: DataFrame,
    columns: Mapping[str, object],
    keep: Sequence[str] | None,
    key: Mapping[str, str] | None,
    flow: str | None,
) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns that pass unchanged, and those that pass under a new name."""
    renamed = {new: _column(old).alias(new) for new, old in (key or {}).items()}
    gone = {*columns, *renamed, *(key or {}).values()}
    names = _data(rows, flow) if keep is None else keep
    return {name: _column(name) for name in names if name not in gone}, renamed


def _guards(flow: str | None) -> tuple[str, str]:
    """SQL prefixes: `<row is of this flow> AND `, `<row is of another flow> OR `. Empty while the pipe is flat."""
    return ("", "") if flow is None else (f"{_tag(flow)} IS NOT NULL AND ", f"{_tag(flow)} IS NULL OR ")


def _open(rows: DataFrame, flow: str | None) -> DataFrame:
    """The rows with the columns of `flow` besides the structs, so that SQL can use the user's names."""
    if flow is None:
        return rows
    from pyspark.sql import functions

    return rows.select(*_columns(rows), functions.col(f"{_tag(flow)}.*"))


def _close(rows: DataFrame, flow: str | None, columns: Sequence[str], tags: Sequence[str]) -> DataFrame:
    """The rows with the columns of `flow` back in its struct."""
    if flow is None:
        return rows
    fields = ", ".join(backticked(name) for name in columns)
    struct = _expr(f"IF({_tag(flow)} IS NULL, NULL, struct({fields}))").alias(f"@{flow}")
    return rows.select(*_meta(rows), *(struct if name == f"@{flow}" else _column(name) for name in tags))


def _tagged(rows: DataFrame, flow: str | None) -> tuple[DataFrame, str]:
    """The pipe with its flow as a struct column, and the flow's name."""
    if flow is not None:
        return rows, flow
    fields = ", ".join(backticked(name) for name in _data(rows, None))
    struct = _expr(f"IF(_kind < 0, NULL, struct({fields}))").alias(f"@{_ONLY}")
    return rows.select(*_meta(rows), struct), _ONLY


def _flattened(rows: DataFrame) -> DataFrame:
    """The pipe, flat if it has only one flow."""
    tags = _tags(rows)
    return _open(rows, tags[0][1:]).drop(tags[0]) if len(tags) == 1 else rows


def _trimmed(flow: str, keep: Sequence[str] | None) -> str:
    if keep is None:
        return _tag(flow)
    fields = ", ".join(f"{_tag(flow)}.{backticked(name)} AS {backticked(name)}" for name in keep)
    return f"IF({_tag(flow)} IS NULL, NULL, struct({fields}))"


def _data(rows: DataFrame, flow: str | None) -> list[str]:
    if flow is None:
        return [name for name in rows.columns if name not in META and name != NUMBER]
    return list(rows.schema[f"@{flow}"].dataType.names)


def _tags(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name.startswith("@") and name != NUMBER]


def _meta(rows: DataFrame) -> list[Column]:
    return [_column(name) for name in (*META, NUMBER) if name in rows.columns]


def _others(rows: DataFrame, flows: Sequence[str]) -> list[Column]:
    return [_column(name) for name in _tags(rows) if name[1:] not in flows]


def _columns(rows: DataFrame) -> list[Column]:
    return [_column(name) for name in rows.columns]


def _tag(flow: str) -> str:
    return backticked(f"@{flow}")


def _column(name: str) -> Column:
    return _expr(backticked(name))


def _expr(sql: str) -> Column:
    from pyspark.sql import functions

    return functions.expr(sql)


def _named(rows: DataFrame, at: str) -> DataFrame:
    return rows.alias(at) if at else rows
